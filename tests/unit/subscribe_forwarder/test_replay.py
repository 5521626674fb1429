"""Replay reads over a store in memory: what is answered, waited for, and refused."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tracemalloc
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import msgspec
import pyarrow
import pytest

from edge.asgi import ClientGone
from edge.problem import Problem
from edge.process_pool import ProcessPool
from store_nodes.errors import Unavailable
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message
from subscribe_forwarder.api.replay import ARROW, NDJSON, ReplayRoutes
from subscribe_forwarder.delivery.reading import parts, replay
from subscribe_forwarder.delivery.selection.worker_evaluator import WorkerEvaluator
from tests.loop_cpu import MAX_CALLBACK_MS, measured
from tests.unit.subscribe_forwarder.replay_support import Site
from tests.unit.subscribe_forwarder.subscribe_support import (
    TENANT,
    TOPIC_UID,
    Answer,
    FakeQueue,
    topic,
    world,
)

OTHER = b"another tenant!!"


@pytest.fixture
def site() -> Site:
    return Site()


def data(found: Mapping[str, Any]) -> list[str]:
    return [message["data"] for message in found["messages"]]


async def test_messages_from_an_offset_as_a_pull_shows_them(site: Site) -> None:
    site.store.publish(b"a", b"b", b"c", key="k", attributes={"kind": "x"})
    found = await site.read("offset=1")
    assert data(found) == ["b", "c"]
    assert (found["next_offset"], found["first_offset"], found["end_offset"]) == (3, 0, 3)
    first = found["messages"][0]
    assert first.keys() == {
        *("message_id", "data", "content_type", "key", "attributes", "publisher_id"),
        *("priority", "scheduled_for", "publish_time", "partition", "offset"),
    }
    assert (first["offset"], first["key"], first["attributes"]) == (1, "k", {"kind": "x"})


async def test_what_is_read_again_has_connections_of_its_own(site: Site) -> None:
    """Publishers' answers once waited behind those of replays."""
    async with world(history=site.store) as server:
        site.store.publish(b"a")
        server.store.publish(b"b", b"c")
        site.routes = ReplayRoutes(server.forwarder)
        assert data(await site.read()) == ["a"]


async def test_limits_end_an_answer_and_the_next_goes_on_from_it(site: Site) -> None:
    site.store.publish(*[b"%d" % number * 10 for number in range(5)])
    seen, offset = [], 0
    for query in ("max_messages=2", "max_bytes=20", "max_bytes=1", ""):
        found = await site.read(f"offset={offset}&{query}")
        seen.append(len(found["messages"]))
        offset = found["next_offset"]
    assert seen == [2, 2, 1, 0]
    assert offset == 5


async def test_an_answer_goes_over_many_batches_and_fetches(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "FETCH_BYTES", 100)
    for number in range(50):
        site.store.publish(b"%d" % number, b"x" * 60)
    found = await site.read("max_messages=1000")
    assert [message["offset"] for message in found["messages"]] == list(range(100))
    assert len(site.store.fetches) > 10


async def test_few_answers_are_in_memory_at_a_time(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixty clients asked for 8 MiB each, and the process took 480 MiB before it sent anything."""
    monkeypatch.setattr(replay, "FETCH_BYTES", 100)
    for _ in range(50):
        site.store.publish(b"x" * 60)
    reading: set[asyncio.Task[Any]] = set()
    most, fetch = 0, site.store.fetch

    async def counted(*given: Any, **named: Any) -> Any:
        nonlocal most
        reading.add(cast("asyncio.Task[Any]", asyncio.current_task()))
        most = max(most, sum(not one.done() for one in reading))
        await asyncio.sleep(0)
        return await fetch(*given, **named)

    monkeypatch.setattr(site.store, "fetch", counted)
    asked = [site.ask("max_messages=1000") for _ in range(8)]
    assert {answer.status for answer in await asyncio.gather(*asked)} == {200}
    assert most == replay.MAX_ANSWERS / 2, "the others of a tenant have fetched nothing"


async def test_an_answer_is_in_memory_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer was in memory three times, and once more with its head."""
    monkeypatch.setattr(replay, "FETCH_BYTES", 1)
    for _ in range(16):
        site.store.publish(bytes(250_000))
    peaks: list[int] = []
    site.on_part = lambda: peaks.append(tracemalloc.get_traced_memory()[1])
    tracemalloc.start()
    try:
        answer = await site.ask()
    finally:
        tracemalloc.stop()
    assert len(answer.body) > 5_000_000
    assert peaks[0] < 1.7 * len(answer.body), "with the messages of one fetch"


class Unread:
    """Clients that take nothing: each stays in the write of its first part."""

    def __init__(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        self.parts: list[bytes] = []
        self._streams: list[asyncio.Task[Answer]] = []
        self._site = site
        monkeypatch.setattr(site, "take", self._take)

    async def _take(self, body: bytes) -> None:
        if len(body) > 2000 or b"{" in bytes(body):  # else it is the head of Arrow
            self.parts.append(body)
            await asyncio.Event().wait()

    async def open(self, count: int, accept: bytes, tenant_id: bytes = TENANT) -> None:
        ask = self._site.ask
        asked = (ask(accept=accept, tenant_id=tenant_id) for _ in range(count))
        self._streams += [asyncio.create_task(one) for one in asked]
        async with asyncio.timeout(30):
            while len(self.parts) < len(self._streams):
                await asyncio.sleep(0.01)

    async def close(self) -> None:
        for one in self._streams:
            one.cancel()
        await asyncio.gather(*self._streams, return_exceptions=True)


@pytest.mark.parametrize("accept", [NDJSON, ARROW])
async def test_streams_that_nobody_reads_hold_the_part_that_is_to_be_taken(
    site: Site, monkeypatch: pytest.MonkeyPatch, accept: bytes
) -> None:
    """Streams held all messages of a fetch, beside the part that was to be taken."""
    monkeypatch.setattr(parts, "PART_MESSAGES", 500)
    monkeypatch.setattr(replay, "KEPT_BYTES", 1)
    site.store.publish(*[b"x" * 1000] * 1000)
    unread = Unread(site, monkeypatch)
    await unread.open(1, accept)  # which loads what is loaded once
    tracemalloc.start()
    try:
        await unread.open(16, accept)
        held_bytes = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    of_parts = sum(len(part) for part in unread.parts[1:])
    assert of_parts > 8_000_000
    assert held_bytes < 1.2 * of_parts
    await unread.close()
    assert site.routes._places().kept.held == 0


async def test_streams_that_nobody_reads_keep_no_more_than_all_may(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant's streams keep at most half of what all may keep."""
    monkeypatch.setattr(parts, "PART_MESSAGES", 100)
    monkeypatch.setattr(replay, "KEPT_BYTES", 4 * 1024 * 1024)
    for _ in range(10):
        site.store.publish(*[b"x" * 1000] * 100)
    unread = Unread(site, monkeypatch)
    await unread.open(20, NDJSON)
    kept = site.routes._places().kept
    assert 0.5 * kept.most < kept.of(TENANT) <= kept.most
    assert kept.refusal(OTHER, kept.most / 4) is None
    await unread.close()
    assert kept.held == 0


@pytest.mark.parametrize("kept_bytes", [1, replay.KEPT_BYTES])
@pytest.mark.parametrize("accept", [NDJSON, ARROW])
async def test_a_stream_that_may_keep_nothing_has_the_same_messages(
    site: Site, monkeypatch: pytest.MonkeyPatch, accept: bytes, kept_bytes: int
) -> None:
    monkeypatch.setattr(parts, "PART_MESSAGES", 3)
    monkeypatch.setattr(replay, "KEPT_BYTES", kept_bytes)
    for number in range(8):
        site.store.publish(*[b"x"] * 5, attributes={"odd": str(number % 2)})
    assert await offsets(site, "", accept) == list(range(40))
    assert len(site.store.fetches) == (1 if kept_bytes > 1 else 14)
    assert await offsets(site, "offset=4&end_offset=33", accept) == list(range(4, 33))
    assert await offsets(site, "offset=4&max_messages=7", accept) == list(range(4, 11))
    odd = [offset for offset in range(40) if offset // 5 % 2]
    assert await offsets(site, "filter=attributes.odd%20==%20'1'", accept) == odd


async def test_a_stream_that_nobody_reads_holds_up_no_other(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.store.publish(b"a")
    unread = Unread(site, monkeypatch)
    await unread.open(2 * replay.MAX_ANSWERS, NDJSON)
    async with asyncio.timeout(5):
        await unread.open(1, b"application/json")
    await unread.close()


async def test_a_replay_that_waits_for_messages_holds_up_no_other(site: Site) -> None:
    """Two replays whose filters matched nothing took all permits while they waited."""
    site.store.publish(b"a", attributes={"kind": "x"})
    query = "filter=attributes.kind%20==%20'y'&wait_seconds=60"
    waiting = [asyncio.create_task(site.ask(query)) for _ in range(replay.MAX_ANSWERS)]
    await asyncio.sleep(0.05)
    async with asyncio.timeout(5):
        assert data(await site.read()) == ["a"]
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def offsets(site: Site, query: str, accept: bytes) -> list[int]:
    """Return the offsets of the messages in the answer, in any form."""
    answer = await site.ask(query, accept=accept)
    assert answer.status == 200, answer.body
    if accept == ARROW:
        found: list[int] = pyarrow.ipc.open_stream(answer.body).read_all()["offset"].to_pylist()
        return found
    if accept == NDJSON:
        return [msgspec.json.decode(line)["offset"] for line in answer.body.splitlines()]
    return [message["offset"] for message in answer.json()["messages"]]


@pytest.mark.parametrize("accept", [b"application/json", NDJSON, ARROW])
@pytest.mark.parametrize("fetch_bytes", [1, 1024 * 1024])
async def test_nothing_is_read_at_or_after_the_end_that_is_asked_for(
    site: Site, monkeypatch: pytest.MonkeyPatch, accept: bytes, fetch_bytes: int
) -> None:
    monkeypatch.setattr(replay, "FETCH_BYTES", fetch_bytes)
    for number in range(5):
        site.store.publish(b"%d" % number, b"x", b"y")
    for start, end in ((0, 15), (2, 9), (2, 8), (4, 5), (0, 99), (7, 7), (7, 3), (20, 9)):
        found = await offsets(site, f"offset={start}&end_offset={end}", accept)
        assert found == list(range(start, min(end, 15))), (start, end)


async def test_an_answer_up_to_an_end_says_so(site: Site) -> None:
    site.store.publish(b"a", b"b", b"c")
    found = await site.read("end_offset=2")
    assert (data(found), found["next_offset"], found["end_offset"]) == (["a", "b"], 2, 3)
    found = await site.read("end_offset=2&filter=attributes.kind%20==%20'x'")
    assert (data(found), found["next_offset"]) == ([], 2)


async def test_a_stream_waits_for_the_end_that_is_asked_for(site: Site) -> None:
    site.store.publish(b"a")
    async with asyncio.timeout(10):
        waiting = asyncio.create_task(site.ask("end_offset=3&wait_seconds=60", accept=NDJSON))
        await asyncio.sleep(0.05)
        site.store.publish(b"b", b"c", b"d")
        lines = (await waiting).body.splitlines()
    assert [msgspec.json.decode(line)["data"] for line in lines] == ["a", "b", "c"]


async def test_neither_offset_nor_time_is_from_the_first(site: Site) -> None:
    site.store.publish(b"a")
    site.store.publish(b"b")
    site.store.truncate(1)
    assert data(await site.read()) == ["b"]


async def test_below_the_first_offset_is_gone(site: Site) -> None:
    site.store.publish(b"a")
    site.store.publish(b"b")
    site.store.truncate(1)
    answer = await site.ask("offset=0")
    assert answer.status == 410
    body = answer.json()
    assert body["type"].endswith("/offset-truncated")
    assert body["first_offset"] == 1
    assert (await site.ask("offset=0", accept=NDJSON)).status == 410


async def test_a_time(site: Site) -> None:
    for body in (b"a", b"b", b"c"):
        site.store.publish(body)  # each 1 µs after the one before
    at = "2025-12-31T23:59:59.123457Z"
    assert data(await site.read(f"time={at}")) == ["b", "c"]
    answer = await site.ask(f"time={at}", "offsets")
    assert answer.json() == {"first": 0, "end": 3, "at": 1}
    late = await site.ask("time=2999-01-01T00:00:00Z", "offsets")
    assert late.json() == {"first": 0, "end": 3, "at": 3}
    assert (await site.ask("", "offsets")).status == 400


async def test_a_moved_partition_is_one_sequence(site: Site) -> None:
    site.store.publish(b"a", b"b")
    site.move()
    site.store.publish(b"c", generation=1)
    found = await site.read()
    assert data(found) == ["a", "b", "c"]
    assert [message["offset"] for message in found["messages"]] == [0, 1, 2]
    del site.store.queues[QueueId(TOPIC_UID, 0)]
    assert (await site.ask("offset=1")).json()["first_offset"] == 2
    assert data(await site.read()) == ["c"]


async def test_a_wait_ends_with_the_first_message(site: Site) -> None:
    async with asyncio.timeout(10):
        waiting = asyncio.create_task(site.read("offset=0&wait_seconds=60"))
        await asyncio.sleep(0.05)
        site.store.publish(b"a")
        assert data(await waiting) == ["a"]


async def test_a_wait_for_an_offset_beyond_the_end(site: Site) -> None:
    site.store.publish(b"a")
    found = await site.read("offset=7")
    assert (found["messages"], found["next_offset"], found["end_offset"]) == ([], 7, 1)
    async with asyncio.timeout(10):
        waiting = asyncio.create_task(site.read("offset=2&wait_seconds=60"))
        await asyncio.sleep(0.05)
        site.store.publish(b"b", b"c")
        assert data(await waiting) == ["c"]


async def test_a_wait_goes_on_over_a_move(site: Site) -> None:
    site.store.publish(b"a")
    async with asyncio.timeout(10):
        waiting = asyncio.create_task(site.read("offset=1&wait_seconds=60"))
        await asyncio.sleep(0.05)
        site.move()
        site.store.publish(b"b", generation=1)
        assert data(await waiting) == ["b"]


async def test_who_goes_away_leaves_its_place(site: Site) -> None:
    with pytest.raises(ClientGone):
        await site.ask("wait_seconds=60", gone_after_s=0.02)
    assert site.routes._places().places.held == 0


async def test_a_caller_that_may_not_go_on_is_told(site: Site) -> None:
    refusal = Problem(401, "unauthenticated", "Authentication required")
    answer = await site.ask("wait_seconds=60", gone_after_s=0.02, refusal=refusal)
    assert answer.status == 401
    assert site.routes._places().places.held == 0


async def test_places_are_few(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "MAX_REPLAYS", 1)
    waiting = asyncio.create_task(site.ask("wait_seconds=60"))
    await asyncio.sleep(0.02)
    refused = await site.ask()
    assert refused.status == 503
    assert refused.json()["type"].rpartition("/")[2] == "too-many-replays"
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert (await site.ask()).status == 200


async def test_a_tenant_that_holds_replays_leaves_places_to_others(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "MAX_REPLAYS", 8)
    held = [asyncio.create_task(site.ask("wait_seconds=60")) for _ in range(8)]
    await asyncio.sleep(0.02)
    other_tenant = topic()
    site.catalog.topics[OTHER] = replace(other_tenant, uid=OTHER, tenant_id=OTHER)
    site.store.queues[QueueId(OTHER, 0)] = FakeQueue()
    answer = await site.ask(tenant_id=OTHER)
    assert answer.status == 200, answer.body
    for one in held:
        one.cancel()
    refused = [one for one in await asyncio.gather(*held, return_exceptions=True) if one]
    assert {one.status for one in refused if isinstance(one, Answer)} == {503}


async def test_a_filter_and_how_far_it_looked(site: Site) -> None:
    for kind in ("x", "y", "x", "z"):
        site.store.publish(kind.encode(), attributes={"kind": kind})
    found = await site.read("filter=attributes.kind%20==%20'x'")
    assert (data(found), found["next_offset"]) == (["x", "x"], 4)
    found = await site.read("filter=attributes.kind%20==%20'x'&max_messages=1")
    assert (data(found), found["next_offset"]) == (["x"], 1)
    answer = await site.ask("filter=attributes.kind%20==")
    assert (answer.status, answer.json()["errors"][0]["field"]) == (400, "filter")


async def test_ndjson_has_a_message_a_line_and_follows(site: Site) -> None:
    site.store.publish(b"a", b"b")
    answer = await site.ask(accept=NDJSON)
    assert answer.headers[b"content-type"] == NDJSON
    assert [msgspec.json.decode(line)["data"] for line in answer.body.splitlines()] == ["a", "b"]
    async with asyncio.timeout(10):
        following = asyncio.create_task(site.ask("wait_seconds=60&max_messages=3", accept=NDJSON))
        await asyncio.sleep(0.05)
        assert len(site.parts) == 1, "what was there is sent at once"
        site.store.publish(b"c", b"d")
        lines = (await following).body.splitlines()
    assert [msgspec.json.decode(line)["data"] for line in lines] == ["a", "b", "c"]


async def test_arrow_has_typed_columns(site: Site) -> None:
    site.store.publish(b"{}", key="k", attributes={"a": "1", "b": "2"}, priority=3)
    site.store.publish(Message(b"\xff\x00"))
    answer = await site.ask(accept=ARROW)
    table = pyarrow.ipc.open_stream(answer.body).read_all()
    assert table.schema.field("publish_time").type == pyarrow.timestamp("us", "UTC")
    first, second = table.to_pylist()
    shown = (await site.read())["messages"]
    assert [first["message_id"], second["message_id"]] == [m["message_id"] for m in shown]
    assert (first["offset"], first["key"], first["priority"]) == (0, "k", 3)
    assert first["attributes"] == [("a", "1"), ("b", "2")]
    assert (second["data"], second["content_type"], second["attributes"]) == (b"\xff\x00", None, [])
    empty = await site.ask("offset=2", accept=ARROW)
    assert pyarrow.ipc.open_stream(empty.body).read_all().num_rows == 0


async def test_staged_messages_keep_their_ids_in_arrow(site: Site) -> None:
    site.store.stage(b"a", b"b")
    site.store.release(1)
    shown = (await site.read())["messages"]
    table = pyarrow.ipc.open_stream((await site.ask(accept=ARROW)).body).read_all()
    assert table.column("message_id").to_pylist() == [m["message_id"] for m in shown]


@pytest.mark.parametrize(
    "query",
    [
        *("offset=-1", "offset=x", "time=yesterday", "time=2026-01-01", "max_messages=0"),
        *("end_offset=-1", "end_offset=x", "max_bytes=0", "wait_seconds=61", "lane=1"),
        "offset=1&time=2026-01-01T00:00:00Z",
    ],
)
async def test_what_does_not_fit_is_named(site: Site, query: str) -> None:
    answer = await site.ask(query)
    assert answer.status == 400
    assert answer.json()["errors"]


@pytest.mark.parametrize("partition", ["1", "x", "99999"])
async def test_no_such_partition(site: Site, partition: str) -> None:
    assert (await site.ask(partition=partition)).status == 404


async def test_a_store_that_does_not_answer_is_said_before_anything(site: Site) -> None:
    site.store.failure = Unavailable("no leader")
    with pytest.raises(Unavailable):
        await site.ask(accept=NDJSON)


def test_json_does_not_load_the_arrow_library() -> None:
    """The library takes 60 MB and a good part of a second to load."""
    code = (
        "import sys, subscribe_forwarder.api.routes, gateway.wiring.opening;"
        " assert 'pyarrow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


async def test_a_filter_over_a_huge_message_is_no_long_callback(site: Site) -> None:
    """All other requests were held up by one GET of a replay while it ran (audit, proof 1)."""
    body = f"[{','.join(['1'] * 300_000)}]".encode()
    site.store.publish(Message(body, "application/json"), Message(b"[2]", "application/json"))
    process_pool = ProcessPool()
    site.evaluator = WorkerEvaluator(process_pool)
    try:
        async with measured() as callbacks:
            answer = await site.ask("filter=data.all(x,x%20==%201%20%26%26%20x%20!=%202)")
        assert len(answer.json()["messages"]) == 1
        assert callbacks.longest_ms < MAX_CALLBACK_MS, callbacks.longest
    finally:
        site.evaluator.close()
        await process_pool.close()
