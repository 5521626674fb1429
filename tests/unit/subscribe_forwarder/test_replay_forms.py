"""The forms of a replay mean the same: Arrow against JSON, and against what was published."""

from __future__ import annotations

import json
import sys
from base64 import b64decode
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store_nodes.record_batch import ORIGIN_STAGE_ID, Message, encode
from subscribe_forwarder.api.replay import ARROW, NDJSON
from subscribe_forwarder.delivery.reading.arrow import ArrowEncoder
from subscribe_forwarder.delivery.reading.batch import Batch
from subscribe_forwarder.delivery.reading.parts import Part, Picked
from subscribe_forwarder.delivery.reading.render import PartitionRenderer
from tests.unit.subscribe_forwarder.replay_support import Site
from tests.unit.subscribe_forwarder.subscribe_support import TOPIC_UID, Entry

TEXTS = st.text(max_size=5)
MESSAGES = st.builds(
    Message,
    data=st.binary(max_size=40),
    content_type=st.none() | st.sampled_from(["application/json", "text/plain", "image/png"]),
    key=st.none() | TEXTS,
    attributes=st.none() | st.dictionaries(TEXTS, TEXTS, max_size=3),
    publisher_id=st.none() | TEXTS,
    priority=st.integers(0, 9),
    traceparent=st.none() | TEXTS,
    origin=st.none() | st.just({"topic": "x"}) | st.just({ORIGIN_STAGE_ID: "s" * 40}),
)
BATCHES = st.lists(st.lists(MESSAGES, min_size=1, max_size=5), min_size=1, max_size=6)


def body(shown: dict[str, Any]) -> bytes:
    """Return the body as it was published."""
    if "data_base64" in shown:
        return b64decode(shown["data_base64"])
    return (
        shown["data"].encode()
        if isinstance(shown["data"], str)
        else json.dumps(shown["data"]).encode()
    )


def rows(stream: bytes) -> list[dict[str, Any]]:
    table = pyarrow.ipc.open_stream(stream).read_all()
    table.validate(full=True)
    found: list[dict[str, Any]] = table.to_pylist()
    return [each | {"attributes": dict(each["attributes"])} for each in found]


async def read(site: Site, query: str, accept: bytes) -> bytes:
    answer = await site.ask(query, accept=accept)
    assert answer.status == 200, answer.body
    return answer.body


def filled() -> Site:
    site = Site()
    for number in range(7):
        site.store.publish(
            *[b"%d" % number] * (number + 1),
            key=None if number % 2 else "k",
            attributes={"n": str(number)} if number % 3 else None,
        )
    site.store.stage(b"staged", b"too")
    site.store.release(1, 0)
    site.store.publish(Message(b"\xff\x00", publisher_id="p", priority=4, traceparent="00-a"))
    site.store.publish(Message(b"copy", origin={ORIGIN_STAGE_ID: "s" * 40}))
    return site


async def test_a_server_without_pyarrow_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    site = filled()
    refused = await site.ask(accept=ARROW)
    assert (refused.status, refused.json()["title"]) == (501, "Not supported")
    assert "`make exports`" in refused.json()["detail"]
    assert len((await read(site, "", NDJSON)).splitlines()) > 7


@pytest.mark.parametrize(
    "query",
    [
        *("", "offset=3&end_offset=20", "max_messages=9", "offset=30"),
        *("filter=attributes.n%20==%20'4'", "offset=8&filter=data.contains('3')&max_messages=2"),
    ],
)
async def test_arrow_and_lines_have_what_json_has(query: str) -> None:
    site = filled()
    shown = json.loads(await read(site, query, b"application/json"))["messages"]
    lines = (await read(site, query, NDJSON)).splitlines()
    assert [json.loads(line) for line in lines] == shown
    columns = ("message_id", "partition", "offset", "key", "attributes", "content_type")
    found = rows(await read(site, query, ARROW))
    for name in (*columns, "publisher_id", "priority"):
        assert [each[name] for each in found] == [each[name] for each in shown], name
    assert [each["data"] for each in found] == [body(each) for each in shown]
    times = [datetime.fromisoformat(each["publish_time"]) for each in shown]
    assert [each["publish_time"] for each in found] == times


def parted(wanted: Sequence[tuple[Batch, Any]], *limits: Any) -> list[list[Picked]]:
    """Return the messages in parts, as a stream gathers them."""
    parts = [Part(*limits)]
    for batch, indices in wanted:
        while indices:
            room = parts[-1].room(batch)
            parts[-1].add(Picked(batch, indices[:room]))
            indices = indices[room:]
            if indices:
                parts.append(Part(*limits))
    return [part.picked for part in parts if part.picked]


@settings(max_examples=60, deadline=None)
@given(
    BATCHES,
    st.integers(0, 2**40),
    st.integers(0, 9),
    st.integers(0, 9999),
    st.integers(1, 7),
    st.randoms(use_true_random=False),
)
def test_a_part_has_what_was_published(
    batches: list[list[Message]], base: int, lane: int, partition: int, most: int, random: Any
) -> None:
    renderer = PartitionRenderer(TOPIC_UID, partition, lane=lane)
    encoder = ArrowEncoder(pyarrow, renderer, partition)
    wanted, opened = [], []
    for number, messages in enumerate(batches):
        entry = Entry(base, number, encode(messages, 1), None, len(messages))
        batch, count = Batch(entry, 0, partition), len(messages)
        low = random.randint(0, count - 1)
        indices: Any = range(low, count) if random.random() < 0.5 else [low, *range(low + 2, count)]
        opened.append((batch, indices))
        wanted += [(messages[index], base + index, number) for index in indices]
        base += count
    stream = [encoder.part(part) for part in parted(opened, most)]
    found = rows(b"".join([encoder.head, *stream, encoder.end]))
    assert len(found) == len(wanted)
    for row, (message, offset, time_us) in zip(found, wanted, strict=True):
        plain = renderer.plain_id(offset).decode()
        staged = (message.origin or {}).get(ORIGIN_STAGE_ID, plain)
        fields = {**msgspec.structs.asdict(message), "attributes": message.attributes or {}}
        assert {name: row[name] for name in row if name in fields} == {
            name: value for name, value in fields.items() if name in row
        }
        assert (row["message_id"], row["offset"], row["partition"]) == (staged, offset, partition)
        assert row["publish_time"].timestamp() * 1e6 == pytest.approx(time_us, abs=0.5)


def test_a_small_part_after_a_large_one_is_small() -> None:
    """Columns that are the same in all rows are kept: as long as they are needed, no longer."""
    encoder = ArrowEncoder(pyarrow, PartitionRenderer(TOPIC_UID, 0), 0)
    large, small = (
        Batch(Entry(0, 1, encode([Message(b"x")] * count, 1), None, count)) for count in (1000, 1)
    )
    alone = len(encoder.part([Picked(small, range(1))]))
    encoder.part([Picked(large, range(1000))])
    assert len(encoder.part([Picked(small, range(1))])) == alone


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=9), max_size=9),
    st.integers(1, 8),
    st.integers(1, 200),
)
def test_parts_are_all_of_it_in_order_and_no_larger_than_they_may(
    sizes: list[list[int]], most: int, most_bytes: int
) -> None:
    opened, wanted = [], []
    for number, batch_sizes in enumerate(sizes):
        messages = [Message(b"x" * size) for size in batch_sizes]
        batch = Batch(Entry(100 * number, 1, encode(messages, 1), None, len(messages)))
        wanted += [(100 * number, index) for index in range(len(messages))]
        opened.append((batch, range(len(messages))))
    made = parted(opened, most, most_bytes)
    flat = [[(batch, index) for batch, indices in part for index in indices] for part in made]
    assert [(batch.base, index) for part in flat for batch, index in part] == wanted
    for part in flat:
        assert 1 <= len(part) <= most
        assert len(part) == 1 or sum(batch.mean_bytes for batch, _ in part) <= most_bytes + 1e-6
