"""Seeded bugs of the delivery half: each breaks one rule of the product, and the simulation must
notice it. One that no seed catches shows that nothing tests the rule."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any, NamedTuple
from unittest import mock

from metadata import eras
from metadata.locks import locks
from metadata.types import Epoch
from openapi.subscriptions import DeliveryValue
from outbox import delayed
from publish_forwarder.scheduled import ScheduledMessages
from scheduler.forwarding import Forwarding, _ForwardingPut
from spark_exports.lake import commit as lake_commit
from store_nodes.commands import DEDUP_ENTRY
from store_nodes.machine.stages import Stages
from store_nodes.queue_id import QueueId
from subscribe_forwarder.api import pulls
from subscribe_forwarder.delivery.flush import AckFlusher
from subscribe_forwarder.delivery.key_sequencer import KeySequencer
from subscribe_forwarder.delivery.pages import Encoding
from subscribe_forwarder.delivery.reader import Reader
from subscribe_forwarder.delivery.sending import to_send
from subscribe_forwarder.delivery.state.held_leases import HeldLeases
from subscribe_forwarder.delivery.state.order import KeyOrder, Verdict
from subscribe_forwarder.delivery.wait_list import Delivery
from tests.chaos.delivery import effects, keyed
from tests.chaos.delivery.actor import Actor
from tests.simulation.delivery import growing
from tests.simulation.delivery.acked import Acked
from tests.simulation.delivery.exported import Exported
from tests.simulation.delivery.locked import Locked
from tests.simulation.delivery.options import GO_BACK, KILL_IN_STALL, LOSE, SLOW, Options


class Mutation(NamedTuple):
    """A bug, and the seeds in which it is looked for."""

    promise: str
    """The bug breaks this promise of docs/GUARANTEES.md."""
    actors: tuple[type[Actor], ...]
    faults: tuple[str, ...]
    made: Callable[[], AbstractContextManager[object]]

    def aimed(self, options: Options) -> Options:
        """Return the options of the same seed, with actors and faults that can show this bug."""
        lost = 0.1 if LOSE in self.faults else 0.0
        return replace(
            options,
            actors=self.actors,
            faults=self.faults,
            busy_s=8.0,
            every_s=1.5,
            slow=0.0,
            late=0.01,
            lost_answers=lost,
            lost_requests=0.0,
        )


def an_ack_is_answered_before_its_commit() -> AbstractContextManager[object]:
    original = AckFlusher.commit

    async def mutated(self: AckFlusher, all_tracked: Iterable[Reader], what: str = "ack") -> None:
        for tracked in all_tracked:
            if tracked.cursor.dirty:
                self.note(tracked)
        if what != "ack":
            await original(self, all_tracked, what)

    return mock.patch.object(AckFlusher, "commit", mutated)


def a_later_message_of_a_key_goes_before_its_head_is_settled() -> AbstractContextManager[object]:
    original = KeyOrder.admit

    def mutated(self: KeyOrder, offset: int, key: int, expires_us: int = 0) -> Verdict:
        verdict = original(self, offset, key, expires_us)
        return Verdict.GO if verdict is Verdict.HOLD else verdict

    return mock.patch.object(KeyOrder, "admit", mutated)


def an_exactly_once_ack_of_a_lease_that_is_over_is_accepted() -> AbstractContextManager[object]:
    """The lease is over, and another one has acked the message."""

    def mutated(self: HeldLeases, offset: int, epoch: Epoch, turn: int) -> bool:
        return offset not in self._of

    return mock.patch.object(HeldLeases, "acked_under", mutated)


def at_most_once_leaves_before_its_commit() -> AbstractContextManager[object]:
    class Unheard:
        """Commits nothing that anybody waits for."""

        async def commit(self, *_: object) -> None:
            """Do nothing."""

    async def mutated(
        delivery: Delivery, guarantee: DeliveryValue, flusher: AckFlusher, encoding: Encoding
    ) -> Any:
        heard: Any = Unheard() if guarantee == "at_most_once" else flusher
        return await to_send(delivery, guarantee, heard, encoding)

    return mock.patch.object(pulls, "to_send", mutated)


def a_postgres_that_went_back_is_taken_for_the_same() -> AbstractContextManager[object]:
    def none(*_: object) -> None:
        """Return no reason to doubt Postgres."""

    return mock.patch.multiple(eras, went_back=none, behind_store=none)


def a_lock_is_taken_before_its_lease_is_over() -> AbstractContextManager[object]:
    free = "(l.owner IS NULL OR l.lease_until <= clock_timestamp()"
    return _other_acquire(free, f"{free} + interval '1 second'")


def a_new_holder_has_the_token_of_the_one_before() -> AbstractContextManager[object]:
    return _other_acquire("greatest(l.fence, era.fence) + 1", "l.fence")


def _other_acquire(text: str, by: str) -> AbstractContextManager[object]:
    assert locks._ACQUIRE.count(text) == 1, text
    return mock.patch.object(locks, "_ACQUIRE", locks._ACQUIRE.replace(text, by))


def a_key_is_freed_by_an_ack_that_is_not_committed() -> AbstractContextManager[object]:
    settling, settled = KeySequencer._on_settling, KeySequencer._on_settled

    def on_settling(self: KeySequencer, offsets: Sequence[int]) -> None:
        settling(self, offsets)
        settled(self, offsets)

    def on_settled(self: KeySequencer, offsets: Sequence[int]) -> None:
        settled(self, [offset for offset in offsets if offset in self._settling])

    return mock.patch.multiple(KeySequencer, _on_settling=on_settling, _on_settled=on_settled)


def a_growth_is_passed_by_acks_that_are_not_committed() -> AbstractContextManager[object]:
    def mutated(self: Reader, end: int) -> bool:
        return self.scan >= end and (self.keys is None or self.ledger.settled_to(end))

    return mock.patch.object(Reader, "done_to", mutated)


def a_cancel_in_a_sealed_queue_looks_for_no_copy() -> AbstractContextManager[object]:
    """Nor does a reschedule."""

    async def mutated(self: ScheduledMessages, place: object) -> bool:
        return False

    return mock.patch.object(ScheduledMessages, "_is_sealed", mutated)


def a_copy_out_of_a_sealed_queue_takes_no_turn() -> AbstractContextManager[object]:
    original = delayed.copy_ids

    def mutated(index: int, queue: QueueId, number: int, turn: int) -> bytes:
        return original(index, queue, number, turn)[: DEDUP_ENTRY.size]

    return mock.patch.object(delayed, "copy_ids", mutated)


def a_message_of_a_sealed_queue_is_copied_before_its_time() -> AbstractContextManager[object]:
    """The log is not asked whether it is due, but whether it is staged."""

    async def mutated(self: Forwarding, course: Any, numbers: Sequence[int]) -> list[int]:
        staged = [n for n in numbers if await self._locate(course.queue, n) == "staged"]
        course.handed.done.update(set(numbers) - set(staged))
        return staged

    return mock.patch.object(Forwarding, "due", mutated)


def a_stale_answer_says_that_a_message_of_a_sealed_queue_is_staged() -> AbstractContextManager[
    object
]:
    """The scheduler takes its word; a store node tells for a second what was before, as one does
    that confirms no read."""
    known: dict[tuple[int, int], float] = {}
    due = Forwarding.due
    locate, release, discard = Stages.locate, Stages.release, Stages.discard

    def noting(self: Stages, numbers: Sequence[int]) -> None:
        for number in numbers:
            if locate(self, number, range(1 << 62))[0] == "staged":
                known[id(self), number] = time.monotonic()

    def released(self: Stages, numbers: Sequence[int], *arguments: Any) -> Any:
        noting(self, numbers)
        return release(self, numbers, *arguments)

    def discarded(self: Stages, numbers: Sequence[int]) -> int:
        noting(self, numbers)
        return discard(self, numbers)

    def stale(self: Stages, number: int, readable: Any) -> tuple[str, int | None]:
        if known.get((id(self), number), -1.0) > time.monotonic() - 1:
            return "staged", None
        return locate(self, number, readable)

    async def believing(self: Forwarding, course: Any, numbers: Sequence[int]) -> list[int]:
        found = await due(self, course, numbers)
        for number in course.handed.done & set(numbers):
            if await self._locate(course.queue, number) == "staged":
                course.handed.done.discard(number)
                found.append(number)
        return found

    stack = ExitStack()
    stack.enter_context(mock.patch.object(Forwarding, "due", believing))
    stack.enter_context(
        mock.patch.multiple(Stages, locate=stale, release=released, discard=discarded)
    )
    return stack


def what_was_rescheduled_as_it_was_copied_is_copied_at_once() -> AbstractContextManager[object]:
    original = _ForwardingPut.known

    async def mutated(self: _ForwardingPut, *arguments: Any) -> Any:
        asked = self._forwarding

        class Unasked:
            """Takes all for due."""

            discard_turn = staticmethod(asked.discard_turn)

            async def due(self, _: object, numbers: list[int]) -> list[int]:
                return numbers

        self._forwarding = Unasked()  # type: ignore[assignment]
        try:
            return await original(self, *arguments)
        finally:
            self._forwarding = asked

    return mock.patch.object(_ForwardingPut, "known", mutated)


def a_commit_of_an_export_is_not_held_against_the_table() -> AbstractContextManager[object]:
    """Each commit takes its run for one that was planned for the table as it is."""

    def mutated(*_: object) -> bool:
        return False

    return mock.patch.object(lake_commit, "_has", mutated)


MUTATIONS: dict[str, Mutation] = {
    made.__name__: Mutation(promise, actors, faults, made)
    for promise, actors, faults, made in (
        (
            "P4",
            (Acked,),
            ("kill a server",),
            an_ack_is_answered_before_its_commit,
        ),
        (
            "P3",
            (keyed.Keyed,),
            (),
            a_later_message_of_a_key_goes_before_its_head_is_settled,
        ),
        (
            "P3",
            (effects.ExactlyOnce,),
            (),
            an_exactly_once_ack_of_a_lease_that_is_over_is_accepted,
        ),
        (
            "P3",
            (effects.AtMostOnce,),
            ("kill a server",),
            at_most_once_leaves_before_its_commit,
        ),
        (
            "P6",
            (Acked, Locked),
            (GO_BACK,),
            a_postgres_that_went_back_is_taken_for_the_same,
        ),
        ("P10", (Locked,), (), a_lock_is_taken_before_its_lease_is_over),
        ("P10", (Locked,), (), a_new_holder_has_the_token_of_the_one_before),
        (
            "P3",
            (growing.Ordered,),
            (KILL_IN_STALL,),
            a_key_is_freed_by_an_ack_that_is_not_committed,
        ),
        (
            "P3",
            (growing.Ordered,),
            (KILL_IN_STALL,),
            a_growth_is_passed_by_acks_that_are_not_committed,
        ),
        (
            "P3",
            (growing.Delayed,),
            (SLOW, "stall Postgres"),
            a_cancel_in_a_sealed_queue_looks_for_no_copy,
        ),
        (
            "P3",
            (growing.Delayed,),
            (SLOW,),
            a_copy_out_of_a_sealed_queue_takes_no_turn,
        ),
        (
            "P3",
            (growing.Delayed,),
            (SLOW,),
            a_message_of_a_sealed_queue_is_copied_before_its_time,
        ),
        (
            "P3",
            (growing.Delayed,),
            (SLOW,),
            what_was_rescheduled_as_it_was_copied_is_copied_at_once,
        ),
        (
            "P3",
            (growing.Delayed,),
            (SLOW,),
            a_stale_answer_says_that_a_message_of_a_sealed_queue_is_staged,
        ),
        ("P15", (Exported,), (), a_commit_of_an_export_is_not_held_against_the_table),
    )
}
