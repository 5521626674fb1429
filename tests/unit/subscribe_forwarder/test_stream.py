"""Streams: what is there and what comes, within the window, until somebody ends it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from msgspec import structs

from metadata.types import ChangeKind
from store_nodes.record_batch import Message
from subscribe_forwarder.api import stream_lines, stream_parts
from tests.unit.subscribe_forwarder.stream_support import REFUSAL, stream
from tests.unit.subscribe_forwarder.subscribe_support import SUBSCRIPTION_UID, World, world

SSE = {b"accept": b"text/event-stream"}


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes quickly."""
    monkeypatch.setattr(stream_parts, "TICK_S", 0.01)


async def settled(w: World) -> None:
    """Wait until everything has come that comes by itself."""
    await asyncio.sleep(0.03)


async def backlog(w: World) -> dict[str, Any]:
    answer = await w.call("GET", "/subscriptions/{name}/backlog", name="reader")
    shown: dict[str, Any] = answer.json()
    return shown


async def test_what_is_there_and_what_comes() -> None:
    async with world(partitions=2) as w:
        w.store.publish(b"a", b"b")
        async with stream(w) as s:
            assert (s.status, s.headers[b"content-type"]) == (200, b"application/x-ndjson")
            assert s.headers[b"cache-control"] == b"no-store"
            await s.until(2)
            w.store.publish(b"c", partition=1)
            messages = await s.until(3)
            assert s.data == ["a", "b", "c"]
            assert {m["attempt"] for m in messages} == {1}
            assert (await w.ack(*messages)).json() == {"acked": 3, "results": []}


async def test_a_message_is_the_object_of_a_pull() -> None:
    async with world() as w:
        w.store.publish(b"a", b"b")
        pulled = await w.pulled(1)
        async with stream(w) as s:
            assert (await s.until(1))[0].keys() == pulled[0].keys()


async def test_the_first_line_says_that_the_stream_is_there() -> None:
    async with world() as w, stream(w) as s:
        heartbeat = s.objects[0]["heartbeat"]
        assert heartbeat.pop("time").endswith("Z")
        assert (await backlog(w))["streams"] == 1
        assert (await backlog(w))["waiting_pulls"] == 0
        assert heartbeat == {"outstanding_messages": 0, "outstanding_bytes": 0, "paused": None}


async def test_many_messages_are_few_writes() -> None:
    async with world() as w:
        for _ in range(10):
            w.store.publish(*[b"x"] * 100)
        async with stream(w, "max_outstanding_messages=1000") as s:
            await s.until(1000)
            assert len(s.writes) < 20


async def test_no_more_are_out_than_the_window_allows() -> None:
    async with world() as w:
        w.store.publish(*[b"%d" % i for i in range(20)])
        async with stream(w, "max_outstanding_messages=3") as s:
            messages = await s.until(3)
            await settled(w)
            assert len(s.messages) == 3
            await w.ack(messages[1])
            await s.until(4)
            await settled(w)
            assert len(s.messages) == 4


async def test_bytes_are_a_limit_too_exceeded_by_one_message_at_most() -> None:
    async with world() as w:
        w.store.publish(*[b"x" * 100] * 5)
        async with stream(w, "max_outstanding_bytes=250") as s:
            messages = await s.until(3)
            await settled(w)
            assert len(s.messages) == 3
            await w.ack(messages[0])
            await s.until(4)


async def test_every_end_of_a_lease_frees_room() -> None:
    async with world() as w:
        w.store.publish(*[b"%d" % i for i in range(10)])
        async with stream(w, "max_outstanding_messages=2") as s:
            first, second = await s.until(2)
            await w.post("nack", {"ack_id": first["ack_id"], "delay_seconds": 1000})
            third = (await s.until(3))[-1]
            await w.post(
                "modify_ack_deadline", {"ack_id": second["ack_id"], "deadline_seconds": 900}
            )
            await settled(w)
            assert len(s.messages) == 3  # an extended one is still out
            w.clock.added_s += 60  # the lease of the third is over
            await w.post("nack", {"ack_id": third["ack_id"]})
            await s.until(4)


async def test_an_extended_lease_is_out_until_it_is_acked() -> None:
    async with world() as w:
        w.store.publish(*[b"%d" % i for i in range(10)])
        async with stream(w, "max_outstanding_messages=2") as s:
            messages = await s.until(2)
            ids = [m["ack_id"] for m in messages]
            for _ in range(3):
                await w.post("modify_ack_deadline", {"ack_ids": ids, "deadline_seconds": 900})
            await settled(w)
            assert len(s.messages) == 2
            await w.ack(*messages)
            await s.until(4)


async def test_streams_share_what_comes_in_turn() -> None:
    async with world() as w, stream(w) as one, stream(w) as two:
        for i in range(10):
            w.store.publish(b"%d" % i)
            await asyncio.sleep(0.005)
        assert len(one.messages) == len(two.messages) == 5


async def test_a_full_stream_holds_up_nobody() -> None:
    async with world() as w, stream(w, "max_outstanding_messages=1") as s:
        w.store.publish(b"a", b"b")
        await s.until(1)
        assert [m["data"] for m in await w.pulled()] == ["b"]
        waiting = asyncio.create_task(w.pulled(wait_s=20))
        await settled(w)
        w.store.publish(b"c")
        assert [m["data"] for m in await waiting] == ["c"]


async def test_what_was_written_stays_leased_when_the_client_goes() -> None:
    async with world() as w:
        w.store.publish(b"a")
        async with stream(w) as s:
            await s.until(1)
        assert await w.pulled() == []
        w.clock.added_s += 31
        again = await w.pull(wait_s=5)
        assert [m["attempt"] for m in again.json()["messages"]] == [2]


async def test_what_could_not_be_written_is_ready_again() -> None:
    async with world() as w, stream(w) as s:
        s.client_gone.set()
        w.store.publish(b"a")
        await s.task
        (message,) = await w.pulled()
        assert message["attempt"] == 1


async def test_a_caller_that_may_not_go_on_gets_the_reason_and_nothing_more() -> None:
    async with world() as w, stream(w) as s:
        w.store.publish(b"a")
        await s.until(1)
        s.refusal.set_result(REFUSAL)
        w.store.publish(b"b")
        end = await s.ended()
        assert (end["reason"], end["problem"]["status"]) == ("problem", 401)
        assert s.data == ["a"]
        (message,) = await w.pulled()
        assert (message["data"], message["attempt"]) == ("b", 1)


async def test_a_caller_that_may_not_go_on_and_does_not_read_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_lines, "STOP_WAITING_S", 0.02)
    async with world() as w, stream(w) as s:
        s.readable.clear()
        w.store.publish(b"a")
        await settled(w)
        s.refusal.set_result(REFUSAL)
        async with asyncio.timeout(5):
            await s.task
        assert not s.whole


async def test_a_client_that_does_not_read_costs_one_write(ticking: None) -> None:
    async with world() as w, stream(w, "max_outstanding_messages=10000") as s:
        s.readable.clear()
        for _ in range(20):
            w.store.publish(*[b"x"] * 100)
        await settled(w)
        assert len(s.messages) <= stream_parts.MAX_WRITE_MESSAGES
        assert (await backlog(w))["leased"] == len(s.messages)


async def test_a_client_that_never_reads_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_lines, "STALLED_S", 0.05)
    async with world() as w, stream(w) as s:
        s.readable.clear()
        w.store.publish(b"a")
        async with asyncio.timeout(5):
            await s.task
        assert not s.whole
        assert await w.pulled() == []  # it may have left: leased until its deadline


async def test_heartbeats(ticking: None) -> None:
    async with world() as w, stream(w, "heartbeat_seconds=1") as s:
        w.store.publish(b"abc")
        await s.until(1)
        async with asyncio.timeout(5):
            while len(s.objects) < 3:
                await asyncio.sleep(0.01)
        last = s.objects[2]["heartbeat"]
        assert (last["outstanding_messages"], last["outstanding_bytes"]) == (1, 3)


async def test_it_ends_when_it_was_to_end() -> None:
    async with world() as w:
        w.store.publish(b"a")
        async with stream(w, "max_seconds=0.05") as s:
            assert await s.ended() == {"reason": "max_seconds", "problem": None}
            assert s.data == ["a"]


async def test_draining_ends_it() -> None:
    async with world() as w, stream(w) as s, stream(w, "max_outstanding_messages=1") as full:
        w.store.publish(b"a", b"b")
        await settled(w)
        w.forwarder.drain()
        for one in (s, full):
            assert await one.ended() == {"reason": "draining", "problem": None}


async def test_draining_does_not_wait_for_who_does_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_lines, "STOP_WAITING_S", 0.02)
    async with world() as w, stream(w) as s:
        s.readable.clear()
        w.store.publish(b"a")
        await settled(w)
        w.forwarder.drain()
        async with asyncio.timeout(5):
            await s.task


async def test_a_deleted_subscription_ends_it() -> None:
    async with world() as w, stream(w) as s:
        del w.metadata.subscriptions["reader"]
        await w.metadata.changed(ChangeKind.SUBSCRIPTION, SUBSCRIPTION_UID, "reader")
        end = await s.ended()
        assert end["reason"] == "problem"
        assert end["problem"]["type"].endswith("/subscription-not-found")


async def test_server_sent_events() -> None:
    async with world() as w:
        w.store.publish(Message(b'{"a":\r\n 1}', "application/json"))
        w.store.publish("zwei\u2028Zeilen".encode())
        async with stream(w, "max_seconds=0.1", headers=SSE) as s:
            await s.task
        assert s.headers[b"content-type"] == b"text/event-stream"
        events = [e.split("\n") for e in b"".join(s.writes).decode().split("\n\n")[:-1]]
        assert events[0][0] == "event: heartbeat"
        bodies = [msgspec.json.decode(line.removeprefix("data: ")) for (line,) in events[1:3]]
        assert [b["data"] for b in bodies] == [{"a": 1}, "zwei\u2028Zeilen"]
        assert events[-1][0] == "event: end"
        assert msgspec.json.decode(events[-1][1].removeprefix("data: "))["reason"] == "max_seconds"


async def test_each_line_is_one_line_for_every_reader() -> None:
    bodies = [b'{"a":\n\t1,\r\n"b":2}', '{"ü":"x\u2028y\u0085z"}'.encode(), b"[1,\r2]\n"]
    async with world() as w:
        for body in bodies:
            w.store.publish(Message(body, "application/json"))
        async with stream(w) as s:
            await s.until(3)
        lines = b"".join(s.writes).decode().splitlines()[1:4]
        got = [msgspec.json.decode(line)["message"]["data"] for line in lines]
        assert got == [{"a": 1, "b": 2}, {"ü": "x\u2028y\x85z"}, [1, 2]]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("max_outstanding_messages=0", "max_outstanding_messages"),
        ("max_outstanding_messages=10001", "max_outstanding_messages"),
        ("max_outstanding_bytes=1.5", "max_outstanding_bytes"),
        ("heartbeat_seconds=0.5", "heartbeat_seconds"),
        ("max_seconds=-1", "max_seconds"),
        ("consumer=", "consumer"),
    ],
)
async def test_limits_that_do_not_fit(query: str, field: str) -> None:
    async with world() as w, stream(w, query) as s:
        assert s.problem is not None
        assert s.problem.status == 400
        assert [error.field for error in s.problem.errors] == [field]


async def test_no_more_consumers_than_may_wait() -> None:
    async with world(max_waiting_pulls=1) as w, stream(w), stream(w) as second:
        assert second.problem is not None
        assert second.problem.slug == "too-many-waiting-pulls"
        assert second.status == 0


async def test_a_limited_stream_goes_at_its_rate() -> None:
    async with world() as w:
        reader = w.metadata.subscriptions["reader"]
        w.metadata.subscriptions["reader"] = structs.replace(reader, rate_limit=100.0)
        for _ in range(4):
            w.store.publish(*[b"x"] * 100)
        async with stream(w, "max_outstanding_messages=1000") as s:
            await s.until(100)
            assert (await backlog(w))["paused"] == "rate_limited"
            await asyncio.sleep(0.1)
            assert 105 <= len(s.messages) <= 120


async def change(w: World, **members: Any) -> None:
    """The subscription changes, and the change feed tells it."""
    reader = w.metadata.subscriptions["reader"]
    w.metadata.subscriptions["reader"] = structs.replace(reader, **members)
    await w.metadata.changed(ChangeKind.SUBSCRIPTION, reader.uid, reader.name)


async def test_a_pause_leaves_it_open_and_says_so(ticking: None) -> None:
    async with world() as w, stream(w, "heartbeat_seconds=1") as s:
        await change(w, state="paused", state_reason="lunch")
        w.store.publish(b"a")
        async with asyncio.timeout(5):
            while len(s.objects) < 2:
                await asyncio.sleep(0.01)
        assert s.objects[1]["heartbeat"]["paused"] == "paused"
        await change(w, state="active")
        await s.until(1)


async def test_a_subscription_that_was_moved_goes_on_where_it_is_now(ticking: None) -> None:
    async with world() as w, stream(w, "max_outstanding_messages=2") as s:
        w.store.publish(b"a", b"b")
        await s.until(2)  # and they are not acked: they were of another generation
        key = next(iter(w.metadata.rows))
        row = replace(w.metadata.rows[key], generation=2, floor=0, read_to=0, acked=())
        w.metadata.rows[key] = row
        await change(w, generation=2)
        assert [m["data"] for m in await s.until(4)] == ["a", "b", "a", "b"]
