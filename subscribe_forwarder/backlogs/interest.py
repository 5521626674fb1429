"""What this process itself wants to hear of: held by streams, or used a moment ago."""

from __future__ import annotations

from collections import Counter

from subscribe_forwarder.backlogs.part import Wanted

LINGER_S = 5.0
"""So long after the last holder let go: those who come back at once find what is known."""


class Interest:
    """Pure; times are seconds of the caller's monotonic clock."""

    def __init__(self) -> None:
        self._wanted: dict[bytes, Wanted] = {}
        self._holders: Counter[bytes] = Counter()
        self._until_s: dict[bytes, float] = {}
        """Of those without a holder."""

    @property
    def wanted(self) -> dict[bytes, Wanted]:
        """By subscription; not to be changed."""
        return self._wanted

    def __contains__(self, subscription_uid: bytes) -> bool:
        return subscription_uid in self._wanted

    def hold(self, wanted: Wanted) -> bool:
        """Until `let_go`; whether that is new."""
        self._holders[wanted.subscription_uid] += 1
        self._until_s.pop(wanted.subscription_uid, None)
        return self._note(wanted)

    def let_go(self, subscription_uid: bytes, now_s: float) -> None:
        self._holders[subscription_uid] -= 1
        if not self._holders[subscription_uid]:
            del self._holders[subscription_uid]
            self._until_s[subscription_uid] = now_s + LINGER_S

    def use(self, wanted: Wanted, until_s: float) -> bool:
        """For a while, whoever else holds it; whether that is new."""
        if wanted.subscription_uid not in self._holders:
            self._until_s[wanted.subscription_uid] = until_s
        return self._note(wanted)

    def expire(self, now_s: float) -> list[bytes]:
        """Those that nobody wants any more."""
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
