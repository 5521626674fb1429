"""The subscriptions that this process itself wants: streams hold them, or a caller used
them lately.
"""

from __future__ import annotations

from collections import Counter

from subscribe_forwarder.fleet.backlogs.part import Wanted

LINGER_S = 5.0
"""Seconds a subscription stays wanted after its last holder let go: a holder that comes
back at once finds what is known.
"""


class Interest:
    """Pure; times are seconds of the caller's monotonic clock."""

    def __init__(self) -> None:
        self._wanted: dict[bytes, Wanted] = {}
        self._holders: Counter[bytes] = Counter()
        self._until_s: dict[bytes, float] = {}
        """The times until which subscriptions without a holder are wanted."""

    @property
    def wanted(self) -> dict[bytes, Wanted]:
        """Return the wanted subscriptions, by uid; do not change it."""
        return self._wanted

    def __contains__(self, subscription_uid: bytes) -> bool:
        return subscription_uid in self._wanted

    def hold(self, wanted: Wanted) -> bool:
        """Want a subscription until `let_go`; returns whether that is new."""
        self._holders[wanted.subscription_uid] += 1
        self._until_s.pop(wanted.subscription_uid, None)
        return self._note(wanted)

    def let_go(self, subscription_uid: bytes, now_s: float) -> None:
        self._holders[subscription_uid] -= 1
        if not self._holders[subscription_uid]:
            del self._holders[subscription_uid]
            self._until_s[subscription_uid] = now_s + LINGER_S

    def use(self, wanted: Wanted, until_s: float) -> bool:
        """Want a subscription until then, with or without holders; returns whether that is new."""
        if wanted.subscription_uid not in self._holders:
            self._until_s[wanted.subscription_uid] = until_s
        return self._note(wanted)

    def expire(self, now_s: float) -> list[bytes]:
        """Forget and return the subscriptions that nobody wants any more."""
        over = [uid for uid, until_s in self._until_s.items() if until_s <= now_s]
        for uid in over:
            del self._until_s[uid]
            del self._wanted[uid]
        return over

    @property
    def any_unheld(self) -> bool:
        """Whether `expire` is to be called."""
        return bool(self._until_s)

    def _note(self, wanted: Wanted) -> bool:
        if self._wanted.get(wanted.subscription_uid) == wanted:
            return False
        self._wanted[wanted.subscription_uid] = wanted
        return True
