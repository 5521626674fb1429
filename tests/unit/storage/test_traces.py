"""The trace of a lost batch is enough to find it among values, and to refuse another."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from store_nodes.commands import StageExtras, encode_append, encode_value
from store_nodes.storage.rows import OFFSETS, STAGES
from store_nodes.storage.traces import Trace, told, traces_of
from store_nodes.wal.frame import HEADER_BYTES, FrameKind
from store_nodes.wal.segment import FIRST_COMPACTED
from tests.unit.storage.storage_support import Command, Store, body, queue_id
from tests.unit.storage.test_damaged_storage import SCRUBBING, compacted_store, flip, scrub

SESSION = bytes(16)


def raw_store() -> Store:
    store = Store(0, SCRUBBING)
    for _ in range(150):
        store.do(Command("append", 0, 2, 700))
    store.checkpoint()
    store.checkpoint()
    return store


def trace_after(store: Store) -> Trace:
    """Return the trace of the only batch that a scrub misses, as a peer reads it."""
    scrub(store)
    (lost,) = store.reports[0].lost
    (trace,) = told({"traces": [one.row() for one in traces_of(store.log, [lost])]})
    return trace


def values_with(*batches: bytes, staged: bool = False) -> dict[int, tuple[int, bytes]]:
    """Return accepted values, each with one batch of two messages for queue 0, or 2 if staged."""
    return {
        900 + at: (7, encode_value([_command(batch, staged)], 5))
        for at, batch in enumerate(batches)
    }


def _command(batch: bytes, staged: bool) -> bytes:
    if staged:
        return encode_append(queue_id(2), SESSION, 1, 100, 2, batch, extras=StageExtras(None))
    return encode_append(queue_id(0), SESSION, 1, 100, 2, batch)


def test_a_batch_of_a_raw_segment_is_found_by_its_value() -> None:
    store = raw_store()
    (found,) = store.batches.locate(queue_id(0), 20, 0)
    position = store.instances.get(10)
    assert position is not None
    value = store.log.read(position)
    flip(store, f"{found.position.segment:016x}.wal", found.position.offset + 7)
    trace = trace_after(store)
    assert (trace.base, trace.instance, trace.kind) == (20, 10, FrameKind.ACCEPT)
    entry, batch = trace.found({9: (7, b"another"), 10: (7, value)}) or (None, b"")
    assert entry is not None
    assert entry[:4] == (queue_id(0), 20, 2, found.log_time_us)
    assert batch == body(queue_id(0), OFFSETS, 20, 700)
    assert trace.found({11: (7, value)}) is None, "of another instance"
    assert trace.found({10: (7, value[:-1] + b"?")}) is None, "another value was proposed there"
    assert trace.found({}) is None


@pytest.mark.parametrize("ballot", [1 << 16, 2 << 16])
def test_a_value_is_the_one_of_its_ballot_if_the_frame_header_is_damaged_too(ballot: int) -> None:
    store = raw_store()
    (found,) = store.batches.locate(queue_id(0), 20, 0)
    position = store.instances.get(10)
    assert position is not None
    value = store.log.read(position)
    name = f"{found.position.segment:016x}.wal"
    flip(store, name, found.position.offset + 7)
    flip(store, name, position.offset - HEADER_BYTES + 9)
    trace = trace_after(store)
    assert trace.payload_crc is None
    assert (trace.found({10: (ballot, value)}) is not None) == (ballot == 1 << 16)


def test_a_compacted_batch_is_found_in_the_value_that_appended_it() -> None:
    store = compacted_store()
    (found,) = store.batches.locate(queue_id(0), 20, 0)
    assert found.position.segment >= FIRST_COMPACTED
    flip(store, f"{found.position.segment:016x}.settled", found.position.offset + 7)
    trace = trace_after(store)
    assert trace.kind == FrameKind.BATCH
    batch, other = body(queue_id(0), OFFSETS, 20, 700), body(queue_id(0), OFFSETS, 22, 700)
    entry, taken = trace.found(values_with(other, batch)) or (None, b"")
    assert entry is not None
    assert entry[:4] == (queue_id(0), 20, 2, found.log_time_us)
    assert taken == batch
    assert trace.found(values_with(other)) is None, "as long, and not the one"
    assert trace._replace(payload_crc=None).found(values_with(batch)) is None, "nothing proves it"


def test_a_compacted_staged_batch_is_found_among_stages() -> None:
    store = compacted_store()
    (entry,) = store.batches.staged_batches(queue_id(2), 4, 0)
    flip(store, f"{entry.position.segment:016x}.settled", entry.position.offset + 7)
    trace = trace_after(store)
    batch = body(queue_id(2), STAGES, 4, 400)
    found = trace.found(values_with(batch, staged=True))
    assert found is not None
    assert found[1] == batch
    assert trace.found(values_with(batch)) is None, "an append is no stage"
    assert crc32c(batch) != trace.payload_crc, "the frame has more than the batch"
