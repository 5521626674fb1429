"""Seeded bugs in staging, known ids and counters (see mutations.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from store_nodes.machine import machine
from store_nodes.machine.dedup import DedupTable
from store_nodes.machine.outcomes import CounterSet
from store_nodes.machine.stages import Stages

Mutation = Callable[[], AbstractContextManager[object]]


def a_known_id_of_a_staged_message_is_not_seen() -> AbstractContextManager[object]:
    """Only ids of appended messages are remembered (P2)."""
    original = DedupTable.remember

    def mutated(self: DedupTable, *args: Any, staged: bool, **more: Any) -> None:
        if not staged:
            original(self, *args, staged=staged, **more)

    return mock.patch.object(DedupTable, "remember", mutated)


def a_discarded_message_is_released() -> AbstractContextManager[object]:
    """A discard says that it took effect, and does nothing (P3)."""
    return mock.patch.object(Stages, "discard", lambda self, numbers: len(numbers))


def a_message_is_released_before_its_time() -> AbstractContextManager[object]:
    """Nobody looks at when it is due (P3)."""
    return mock.patch("store_nodes.machine.stages._releasable", return_value=True)


def a_reschedule_is_forgotten() -> AbstractContextManager[object]:
    """It is answered, and the old time stays (P3)."""
    original = Stages.reschedule

    def mutated(self: Stages, numbers: Sequence[int], dues: Sequence[int]) -> int:
        return original(self, numbers, [0] * len(numbers))

    return mock.patch.object(Stages, "reschedule", mutated)


def a_counter_is_set_blindly() -> AbstractContextManager[object]:
    """Whatever it was before (P1)."""

    def mutated(counters: dict[str, int], command: Any) -> CounterSet:
        counters[command.name] = command.new
        return CounterSet(command.name, command.new)

    return mock.patch.object(machine, "compare_and_set", mutated)


MUTATIONS_OF_THE_LIBRARY: tuple[Mutation, ...] = (
    a_known_id_of_a_staged_message_is_not_seen,
    a_discarded_message_is_released,
    a_message_is_released_before_its_time,
    a_reschedule_is_forgotten,
    a_counter_is_set_blindly,
)
