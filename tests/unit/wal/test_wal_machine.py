"""The log against a list: append, sync, kill, power cut, rot, in any order."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from store_nodes.wal.frame import Record
from store_nodes.wal.position import Position
from store_nodes.wal.recovery import RecoveryState
from tests.unit.wal.wal_support import SimDisk, accept, content, open_log

SMALL_SEGMENT = 16 * 1024


class LogMachine(RuleBasedStateMachine):
    """`durable` was synced and must be there; `written` may be lost from some point on."""

    @initialize(seed=st.integers(0, 2**32 - 1))
    def start(self, seed: int) -> None:
        self.disk = SimDisk(seed)
        self.durable: list[tuple[Record, Position]] = []
        self.written: list[tuple[Record, Position]] = []
        self.next = 0
        self.log, _ = open_log(self.disk, segment_bytes=SMALL_SEGMENT)

    @rule(sizes=st.lists(st.integers(0, 2000) | st.just(20_000), min_size=1, max_size=6))
    def write(self, sizes: list[int]) -> None:
        records = []
        for size in sizes:
            self.next += 1
            records.append(accept(self.next, self.disk.luck.randbytes(size)))
        before = self.log.tail.segment
        positions = self.log.write(records)
        if positions[0].segment != before:
            self.durable += self.written  # A seal syncs what it seals.
            self.written.clear()
        self.written += zip(records, positions, strict=True)
        if positions[0].segment != before:
            self.sync()

    @rule()
    def sync(self) -> None:
        self.log.sync()
        self.durable += self.written
        self.written.clear()

    @rule()
    def mark(self) -> None:
        self.sync()
        self.log.mark()

    @rule()
    def spare(self) -> None:
        self.log.prepare_spare()

    @rule()
    def stop(self) -> None:
        self.log.close()
        self.durable += self.written
        self.written.clear()
        self.reopen(RecoveryState.CLEAN)

    @rule()
    def kill(self) -> None:
        """The page cache survives: nothing is lost."""
        self.disk.kill()
        self.durable += self.written
        self.written.clear()
        self.reopen(RecoveryState.CLEAN)

    @rule()
    def cut_power(self) -> None:
        self.disk.cut()
        self.reopen()

    @rule(which=st.integers(0, 10_000), bit=st.integers(0, 7))
    def rot(self, which: int, bit: int) -> None:
        """Let one bit of a synced payload rot, which the next start finds and repairs."""
        self.mark()
        self.sync()
        payloads = [index for index, (record, _) in enumerate(self.durable) if record.payload]
        if not payloads:
            return
        hit = payloads[which % len(payloads)]
        record, position = self.durable[hit]
        name = f"{position.segment:016x}.wal"
        at = position.offset + which % position.length
        self.disk.damage(name, at, bytes([self.disk.inode(name).live[at] ^ 1 << bit]))
        self.disk.kill()
        self.log, recovery = open_log(self.disk, segment_bytes=SMALL_SEGMENT)
        assert content(recovery) == [one for one, _ in self.durable if one is not record]
        assert recovery.state is RecoveryState.DAMAGED
        (found,) = recovery.damages
        assert (found.group, found.instance) == (record.group, record.instance)
        del self.durable[hit]
        (again,) = self.log.write([record])
        self.log.sync()
        self.log.damages.repaired()
        self.durable.append((record, again))

    def reopen(self, state: RecoveryState | None = None) -> None:
        self.log, recovery = open_log(self.disk, segment_bytes=SMALL_SEGMENT)
        found = list(recovery.frames())
        model = self.durable + self.written
        assert found[: len(self.durable)] == self.durable
        assert found == model[: len(found)]
        assert recovery.state is not RecoveryState.DAMAGED
        assert state is None or recovery.state is state
        self.durable, self.written = found, []

    @invariant()
    def everything_reads_back(self) -> None:
        for record, position in (self.durable + self.written)[-3:]:
            assert self.log.read(position) == record.payload


LogMachine.TestCase.settings = settings(
    max_examples=120, stateful_step_count=40, deadline=None, derandomize=True
)
TestLog = LogMachine.TestCase
