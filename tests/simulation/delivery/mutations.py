"""Seeded bugs of the delivery half: each breaks one rule of the product, and the simulation must
notice it. One that no seed catches shows that nothing tests the rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, NamedTuple
from unittest import mock

from metadata import types
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
from tests.simulation.delivery.options import Options


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
    )
}
