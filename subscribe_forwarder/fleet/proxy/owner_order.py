"""The turns in which owners are asked first: those here, or those elsewhere.

Local first costs nobody a connection, and would starve what is elsewhere while there is always
something here. So the forwarders elsewhere are asked first once in a while, as often as is their
share of the partitions; not again for a second when they had nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from subscribe_forwarder.fleet.proxy.routing import HERE, Found

NOTHING_THERE_S = 1.0
MAX_KNOWN = 10_000


class OwnerOrder:
    """The turns by subscription; forgotten where there are too many."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._credit: dict[bytes, float] = {}
        self._quiet_until_s: dict[bytes, float] = {}

    def elsewhere_first(self, found: Found) -> bool:
        here = len(found.partitions.get(HERE, ()))
        total = sum(len(some) for some in found.partitions.values())
        uid = found.subscription.uid
        if here == total or self._clock() < self._quiet_until_s.get(uid, 0.0):
            return False
        if len(self._credit) >= MAX_KNOWN:
            self._credit.clear()
        credit = self._credit.get(uid, 0.0) + (total - here) / total
        self._credit[uid] = credit - 1.0 if credit >= 1.0 else credit
        return credit >= 1.0

    def nothing_elsewhere(self, found: Found) -> None:
        if len(self._quiet_until_s) >= MAX_KNOWN:
            self._quiet_until_s.clear()
        self._quiet_until_s[found.subscription.uid] = self._clock() + NOTHING_THERE_S
