"""Knows the live forwarders, by the last renewal of our own lease, and for how long at least."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from metadata.delivery.leases import LEAVING
from metadata.types import Forwarder

SETTLED_S = 3.0
"""Seconds a forwarder must have lived before it is given units that others own.

Unowned units it gets at once.
"""


class Member(NamedTuple):
    """A live forwarder; `ends_s` and `settled_s` are times of our own monotonic clock."""

    incarnation: bytes
    address: str
    weight: float
    ends_s: float
    """No earlier than its lease ends where it is not renewed."""
    settled_s: float
    leaving: bool


class Members:
    """One per process; our own lease is among them, always alive."""

    def __init__(self) -> None:
        self.me = b""
        self._known: dict[bytes, Member] = {}
        self._leaving: set[bytes] = set()

    def began(self, incarnation: bytes) -> None:
        """We have a new lease."""
        self.me = incarnation

    def update(self, live: Iterable[Forwarder], now_s: float) -> bool:
        """Take the members of a renewal that was answered by `now_s`.

        Returns whether anyone came, went or is leaving since the last.
        """
        before = self._ids()
        known: dict[bytes, Member] = {}
        for one in live:
            known[one.incarnation] = Member(
                one.incarnation,
                one.address,
                one.weight,
                now_s + one.remaining_s,
                now_s - one.age_s + SETTLED_S,
                one.role.endswith(LEAVING) or one.incarnation in self._leaving,
            )
        self._known = known
        self._leaving &= known.keys()
        return self._ids() != before

    def leaves(self, incarnation: bytes) -> bool:
        """Note that a forwarder says that it owns nothing any more; returns whether that is
        news.
        """
        one = self._known.get(incarnation)
        if one is None or one.leaving:
            return False
        self._leaving.add(incarnation)
        self._known[incarnation] = one._replace(leaving=True)
        return True

    def others(self, now_s: float) -> list[Member]:
        """Return all members but ourselves, those that are leaving included."""
        return [
            one for one in self._known.values() if one.incarnation != self.me and one.ends_s > now_s
        ]

    def living(self, now_s: float) -> dict[bytes, Member]:
        """Return the members that may own something, ourselves included unless we are leaving."""
        return {
            one.incarnation: one
            for one in self._known.values()
            if not one.leaving and (one.incarnation == self.me or one.ends_s > now_s)
        }

    def next_end_s(self, now_s: float) -> float | None:
        """Return when the first lease of another ends if it is not renewed; None if there
        is none.
        """
        return min((one.ends_s for one in self.others(now_s)), default=None)

    def _ids(self) -> set[tuple[bytes, bool]]:
        return {(one.incarnation, one.leaving) for one in self._known.values()}
