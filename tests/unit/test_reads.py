"""A replica answers reads of messages that it applied, and names those that it lost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from store_nodes.commands import (
    Create,
    Discard,
    Release,
    Reschedule,
    StageExtras,
    Truncate,
    encode,
    encode_append,
    encode_value,
)
from store_nodes.errors import QueueTruncated, Unavailable
from store_nodes.machine.machine import Machine
from store_nodes.machine.outcomes import AppendDone, ReleaseDone, StageDone, TruncateDone
from store_nodes.node.client_service import ClientService
from store_nodes.node.group import Group
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message
from store_nodes.record_batch import encode as encode_batch
from store_nodes.storage.batch_index import BatchIndex
from store_nodes.wal.errors import WalDamaged
from store_nodes.wal.footer import STAGED, BatchEntry
from store_nodes.wal.position import Position
from store_nodes.wal.recovery import Damage

QUEUE = QueueId(bytes(16), 3).pack()
PER_BATCH = 2
DEADLINE_US = 1_000_000


class Replica:
    """A machine and an index over values held in a dict, any of which can be spoiled."""

    def __init__(self) -> None:
        self.machine = Machine(0)
        self.batches = BatchIndex()
        self.values: dict[int, bytearray | None] = {}
        self.bad: list[Position] = []
        self.seq = 0
        self.control(Create(QUEUE, 0, b""))

    @property
    def service(self) -> ClientService:
        group = SimpleNamespace(
            machine=self.machine, batches=self.batches, read_index=self._read_index
        )
        return ClientService({0: cast(Group, group)}, dict, self.read, self.bad.append)

    async def _read_index(self) -> None:
        """Return at once: a majority confirms that this node leads."""

    def control(self, command: Any) -> Any:
        return self.apply(encode(command))

    def append(self, text: str) -> AppendDone:
        self.seq += 1
        return self.apply(
            encode_append(QUEUE, bytes(16), self.seq, DEADLINE_US, PER_BATCH, of(text))
        )

    def stage(self, text: str, due_us: tuple[int, ...] | None = None) -> StageDone:
        self.seq += 1
        extras = StageExtras(due_us)
        return self.apply(
            encode_append(
                QUEUE, bytes(16), self.seq, DEADLINE_US, PER_BATCH, of(text), extras=extras
            )
        )

    def apply(self, raw: bytes) -> Any:
        instance = self.machine.applied
        value = encode_value([raw], instance + 1)
        self.values[instance] = bytearray(value)
        (outcome,) = self.machine.apply(instance, value)
        match outcome:
            case AppendDone(queue, base, count, time_us, at, length):
                self.batches.add(queue, base, count, time_us, Position(instance, at, length))
            case StageDone(queue, base, count, time_us, at, length):
                at_ = Position(instance, at, length)
                self.batches.add_entry(BatchEntry(queue, base, count, time_us, at_, STAGED))
            case ReleaseDone(queue, _, runs, time_us):
                for base, stage_base, indices in runs:
                    self.batches.add_released(queue, base, time_us, stage_base, indices)
            case TruncateDone(queue, first, kept):
                self.batches.truncate(queue, first, kept)
        return outcome

    def read(self, position: Position) -> bytes:
        value = self.values[position.segment]
        if value is None:
            raise WalDamaged(Damage(position.segment, 0, 0, "missing"))
        return bytes(value[position.offset : position.offset + position.length])

    def spoil(self, instance: int) -> None:
        value = self.values[instance]
        assert value is not None
        value[-1] ^= 1

    async def fetch(self, offset: int, max_bytes: int = 10**6) -> Any:
        return await self.service.fetch(0, QUEUE, offset, max_bytes)

    async def fetch_staged(self, number: int) -> Any:
        return await self.service.fetch_staged(0, QUEUE, number, 10**6)


def of(text: str) -> bytes:
    return encode_batch([Message(f"{text}-{n}".encode()) for n in range(PER_BATCH)], 1)


@pytest.fixture
def replica() -> Replica:
    """Instances 1 … 5 hold the batches of offsets 0, 2, 4, 6, 8."""
    made = Replica()
    for number in range(5):
        made.append(f"b{number}")
    return made


def bases(result: Any) -> list[int]:
    return [entry.base_offset for entry in result.entries]


async def test_batches_come_whole_from_the_one_that_holds_the_offset(replica: Replica) -> None:
    result = await replica.fetch(3)
    assert bases(result) == [2, 4, 6, 8]
    assert (result.first_offset, result.readable_end) == (0, 10)
    assert bytes(result.entries[0].batch) == of("b1")


async def test_at_the_end_there_is_nothing_and_no_error(replica: Replica) -> None:
    assert bases(await replica.fetch(10)) == []
    assert bases(await replica.fetch(11)) == []


async def test_a_reader_gets_at_least_one_batch(replica: Replica) -> None:
    assert bases(await replica.fetch(4, 0)) == [4]


async def test_below_the_first_offset_only_what_is_kept_is_read(replica: Replica) -> None:
    replica.control(Truncate(QUEUE, 8, (3,)))
    assert bases(await replica.fetch(3)) == [2]
    with pytest.raises(QueueTruncated) as caught:
        await replica.fetch(4)
    assert caught.value.first_offset == 8


@pytest.mark.parametrize("how", ["spoilt", "missing"])
async def test_lost_bytes_are_named_and_never_skipped(replica: Replica, how: str) -> None:
    if how == "spoilt":
        replica.spoil(3)
    else:
        replica.values[3] = None
    assert bases(await replica.fetch(0)) == [0, 2]
    with pytest.raises(Unavailable, match=f"offsets 4 to 5 of queue {QUEUE.hex()} are lost"):
        await replica.fetch(4)
    with pytest.raises(Unavailable, match="offsets 4 to 5"):
        await replica.fetch(5)
    assert bases(await replica.fetch(6)) == [6, 8]
    assert {position.segment for position in replica.bad} == {3}


async def test_what_the_index_has_lost_is_named_and_never_skipped(replica: Replica) -> None:
    whole, replica.batches = replica.batches, BatchIndex()
    for located in whole.locate(QUEUE, 0, 10**6):
        if located.base_offset not in (4, 8):
            replica.batches.add(QUEUE, *located[:4])
    assert bases(await replica.fetch(0)) == [0, 2]
    with pytest.raises(Unavailable, match="offsets 4 to 5"):
        await replica.fetch(4)
    assert bases(await replica.fetch(6)) == [6]
    with pytest.raises(Unavailable, match="offsets 8 to 9"):
        await replica.fetch(8)


async def test_a_time_at_which_offsets_are_lost_has_no_offset(replica: Replica) -> None:
    """The answer would send its reader past the lost messages without a word."""
    times = {each.base_offset: each.log_time_us for each in (await replica.fetch(0, 10**6)).entries}
    whole, replica.batches = replica.batches, BatchIndex()
    for located in whole.locate(QUEUE, 0, 10**6):
        if located.base_offset not in (4, 8):
            replica.batches.add(QUEUE, *located[:4])
    assert await replica.service.offset_at(0, QUEUE, times[2]) == 2
    with pytest.raises(Unavailable, match="offsets 4 to 5"):
        await replica.service.offset_at(0, QUEUE, times[4])
    with pytest.raises(Unavailable, match="offsets 8 to 9"):
        await replica.service.offset_at(0, QUEUE, times[8])


async def test_a_released_message_is_its_staged_batch_and_its_place_in_it(replica: Replica) -> None:
    replica.stage("s0")
    replica.stage("s1")
    assert replica.control(Release(QUEUE, (3, 0, 1))).offsets == (10, 11, 12)
    found = (await replica.fetch(10)).entries
    assert [(e.base_offset, e.stage, e.indices) for e in found] == [
        (10, 2, (1,)),
        (11, 0, (0, 1)),
    ]
    assert bytes(found[0].batch) == of("s1")


async def test_staged_batches_are_read_until_nothing_of_them_is_left(replica: Replica) -> None:
    for name in ("s0", "s1", "s2"):
        replica.stage(name)
    replica.control(Release(QUEUE, (0, 1, 2)))
    replica.control(Truncate(QUEUE, 12))
    assert [(b.base_stage, bytes(b.batch)) for b in await replica.fetch_staged(0)] == [
        (2, of("s1")),
        (4, of("s2")),
    ]


async def test_a_lost_staged_batch_is_named(replica: Replica) -> None:
    instance = replica.machine.applied
    replica.stage("s0")
    replica.stage("s1")
    replica.spoil(instance)
    with pytest.raises(Unavailable, match="stage numbers 0 to 1"):
        await replica.fetch_staged(1)
    assert [b.base_stage for b in await replica.fetch_staged(2)] == [2]
    replica.control(Release(QUEUE, (1,)))
    with pytest.raises(Unavailable, match="offsets 10 to 10"):
        await replica.fetch(10)


async def test_the_offset_of_a_time_and_of_so_many_bytes(replica: Replica) -> None:
    at = (await replica.fetch(4, 0)).entries[0].log_time_us
    assert await replica.service.offset_at(0, QUEUE, at) == 4
    assert await replica.service.offset_at(0, QUEUE, at + 10**6) == 10
    each = len(of("b0"))
    assert await replica.service.offset_back(0, QUEUE, 2 * each) == 6
    replica.control(Truncate(QUEUE, 8))
    assert await replica.service.offset_at(0, QUEUE, 0) == 8
    assert await replica.service.offset_back(0, QUEUE, 10**6) == 8


async def test_rescheduled_messages_are_told_once_while_they_are_staged(replica: Replica) -> None:
    replica.stage("s0", (10**15, 10**15))
    _, changes = await replica.service.staged(0, QUEUE, -1, 10)
    for due_us in (10**16, 10**17):
        replica.control(Reschedule(QUEUE, (0, 1), (due_us, due_us)))
    replica.control(Discard(QUEUE, (1,)))
    found, now = await replica.service.staged_changes(0, QUEUE, changes)
    assert found is not None
    assert [(m.stage_number, m.due_us) for m in found] == [(0, 10**17)]
    assert now == changes + 4
    assert await replica.service.staged_changes(0, QUEUE, now) == ([], now)
