"""Seeded bugs of the delivery half: each breaks one rule of the product, and the simulation must
notice it. One that no seed catches shows that nothing tests the rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, NamedTuple
from unittest import mock

from metadata import eras, types
from metadata.locks import locks
from metadata.types import Epoch
from subscribe_forwarder.api import pulls
from subscribe_forwarder.delivery.flush import AckFlusher, Tracked
from subscribe_forwarder.delivery.line import Delivery
from subscribe_forwarder.delivery.sending import to_send
from subscribe_forwarder.state.held_leases import HeldLeases
from subscribe_forwarder.state.order import KeyOrder, Verdict
from tests.chaos.delivery import effects, keyed
from tests.chaos.delivery.actor import Actor
from tests.simulation.delivery.acked import Acked
from tests.simulation.delivery.locked import Locked
from tests.simulation.delivery.options import GO_BACK, Options


class Mutation(NamedTuple):
    """A bug, and the seeds in which it is looked for."""

    promise: str
    """Of docs/GUARANTEES.md, that it breaks."""
    actors: tuple[type[Actor], ...]
    faults: tuple[str, ...]
    made: Callable[[], AbstractContextManager[object]]

    def aimed(self, options: Options) -> Options:
        """The same seed with what can show this bug."""
        lost = 0.1 if "lose answers" in self.faults else 0.0
        return replace(
            options,
            actors=self.actors,
            faults=self.faults,
            every_s=1.0,
            lost_answers=lost,
            lost_requests=0.0,
        )


def an_ack_is_answered_before_its_commit() -> AbstractContextManager[object]:
    original = AckFlusher.commit

    async def mutated(self: AckFlusher, all_tracked: Iterable[Tracked], what: str = "ack") -> None:
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
    """Once another lease has acked the message."""

    def mutated(self: HeldLeases, offset: int, epoch: Epoch, turn: int) -> bool:
        return offset not in self._of

    return mock.patch.object(HeldLeases, "acked_under", mutated)


def at_most_once_leaves_before_its_commit() -> AbstractContextManager[object]:
    class Unheard:
        """Commits nothing that anybody waits for."""

        async def commit(self, *_: object) -> None:
            """At some time."""

    async def mutated(delivery: Delivery, guarantee: types.Delivery, flusher: AckFlusher) -> Any:
        once = guarantee is types.Delivery.AT_MOST_ONCE
        return await to_send(delivery, guarantee, Unheard() if once else flusher)  # type: ignore[arg-type]

    return mock.patch.object(pulls, "to_send", mutated)


def a_postgres_that_went_back_is_taken_for_the_same() -> AbstractContextManager[object]:
    def none(*_: object) -> None:
        """No reason to doubt it."""

    return mock.patch.multiple(eras, went_back=none, behind_store=none)


def a_lock_is_taken_before_its_lease_is_over() -> AbstractContextManager[object]:
    free = "(l.owner IS NULL OR l.lease_until <= clock_timestamp()"
    return _other_acquire(free, f"{free} + interval '1 second'")


def a_new_holder_has_the_token_of_the_one_before() -> AbstractContextManager[object]:
    return _other_acquire("greatest(l.fence, era.fence) + 1", "l.fence")


def _other_acquire(text: str, by: str) -> AbstractContextManager[object]:
    assert locks._ACQUIRE.count(text) == 1, text
    return mock.patch.object(locks, "_ACQUIRE", locks._ACQUIRE.replace(text, by))


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
    )
}
