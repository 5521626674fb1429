"""The knowledge of an actor about a Postgres that goes back in time: which commits it has lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tests.chaos.delivery.actor import Actor


class Forgotten(NamedTuple):
    """A span of lost commits, by the monotonic clock."""

    since_s: float
    lost_s: float


class Forgetting(Actor):
    """One whose rule says what holds then."""

    forgotten: Sequence[Forgotten] = ()

    def may_be_forgotten(self, sent_s: float, answered_s: float) -> bool:
        """Return whether a request of that time may be lost."""
        return any(answered_s >= each.since_s and sent_s <= each.lost_s for each in self.forgotten)

    def is_forgotten(self, sent_s: float, answered_s: float) -> bool:
        """Return whether it is lost for sure."""
        return any(sent_s > each.since_s and answered_s <= each.lost_s for each in self.forgotten)
