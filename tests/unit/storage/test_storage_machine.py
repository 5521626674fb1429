"""Index, compaction, truncation and restarts against a dictionary, in any order."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.unit.storage.storage_support import Command, Store
from tests.unit.wal.wal_support import PowerCut

queues = st.integers(0, 3)


class StorageMachine(RuleBasedStateMachine):
    """Queues 0 … 3, and what the log decided of them in `store.state`."""

    @initialize(seed=st.integers(0, 2**32 - 1))
    def start(self, seed: int) -> None:
        self.store = Store(seed)

    @rule(queue=queues, sizes=st.lists(st.integers(20, 3000), min_size=1, max_size=20))
    def append(self, queue: int, sizes: list[int]) -> None:
        for size in sizes:
            self.store.do(Command("append", queue, 1 + size % 3, size))

    @rule(queue=queues, sizes=st.lists(st.integers(20, 3000), min_size=1, max_size=8))
    def stage(self, queue: int, sizes: list[int]) -> None:
        for size in sizes:
            self.store.do(Command("stage", queue, 1 + size % 3, size))

    @rule(queue=queues, size=st.integers(20, 2000), segments=st.integers(1, 2))
    def apply_late(self, queue: int, size: int, segments: int) -> None:
        self.store.do(Command("append", queue, 1, size), apply=False)
        self.store.fill_segments(segments)
        self.store.apply()

    @rule(queue=queues, at=st.integers(0, 60), count=st.integers(1, 12))
    def release(self, queue: int, at: int, count: int) -> None:
        self.store.do(Command("release", queue, numbers=tuple(range(at, at + count))))

    @rule(queue=queues, at=st.integers(0, 60), count=st.integers(1, 12))
    def discard(self, queue: int, at: int, count: int) -> None:
        self.store.do(Command("discard", queue, numbers=tuple(range(at, at + count))))

    @rule(queue=queues, share=st.floats(0, 1), kept=st.lists(st.floats(0, 1), max_size=4))
    def truncate(self, queue: int, share: float, kept: list[float]) -> None:
        if queue in self.store.state.queues:
            upto = int(self.store.state.queues[queue].end * share)
            numbers = tuple(sorted({int(upto * one) for one in kept}))
            self.store.do(Command("truncate", queue, upto=upto, numbers=numbers))

    @precondition(lambda self: self.store.next > 60)
    @rule()
    def delete(self) -> None:
        self.store.do(Command("delete", 3))

    @rule()
    def checkpoint(self) -> None:
        self.store.checkpoint()

    @rule(rounds=st.integers(1, 3))
    def compact(self, rounds: int) -> None:
        self.store.checkpoint()
        self.store.compact(rounds)

    @rule(after=st.integers(0, 40))
    def cut_in_the_middle(self, after: int) -> None:
        self.store.checkpoint()
        self.store.disk.cut_after = after
        with suppress(PowerCut):
            self.store.compact(3)
        self.store.cut()
        assert self.store.recovery.damages == []

    @rule()
    def cut_power(self) -> None:
        self.store.cut()
        assert self.store.recovery.damages == []

    @rule()
    def kill(self) -> None:
        self.store.kill()

    @invariant()
    def everything_live_is_there(self) -> None:
        self.store.check()

    @invariant()
    def what_is_searched_is_found(self) -> None:
        self.store.check_searches()

    @invariant()
    def instances_that_are_held_read_back(self) -> None:
        store = self.store
        for instance in {store.instances.oldest, store.state.applied - 1}:
            if store.instances.oldest <= instance < store.state.applied:
                place = store.instances.get(instance)
                assert place is not None
                store.log.read(place)


StorageMachine.TestCase.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, derandomize=True
)
TestStorage = StorageMachine.TestCase
