"""The time for which a lock is surely held, by the clock of this process.

A lease counts from the time of the request, so it ends here before it ends at the server, whatever
time the answer took. A lock that is not surely held is lost.
"""

from __future__ import annotations

from packetboat.errors import ClientClosed, Conflict, NotFound, PacketboatError
from packetboat.models import Lock

AGAIN_S = 1.0
"""Pause after a renewal that failed in a way that may pass."""
MAX_WAIT_S = 60.0
"""The limit of seconds for which the server waits for a lock in one request."""


class LockLease:
    """The lease that one answer of the server gave."""

    def __init__(self, lock: Lock, asked_s: float) -> None:
        self.lock = lock
        self._asked_s = asked_s
        self._ends_s = asked_s + lock.expires_in_seconds

    def left_s(self, now_s: float) -> float:
        """0 and less: it is over."""
        return self._ends_s - now_s

    def renew_in_s(self, now_s: float) -> float:
        """Return the seconds to the renewal, after a third of the lease, so that two more
        tries may fail.
        """
        due_s = self._asked_s + self.lock.expires_in_seconds / 3
        return max(0.0, due_s - now_s)

    def again_in_s(self, error: PacketboatError, now_s: float) -> float | None:
        """Return the seconds to the next try after a renewal that failed; None if the lock
        is lost.
        """
        left_s = self.left_s(now_s)
        if left_s <= 0 or isinstance(error, Conflict | NotFound | ClientClosed):
            return None
        return min(AGAIN_S, left_s / 4)


def wait_seconds(wait_s: float | None, waited_s: float) -> float:
    """Return the seconds that the next request waits for a lock; `wait_s` None: for ever."""
    if wait_s is None:
        return MAX_WAIT_S
    return max(0.0, min(MAX_WAIT_S, wait_s - waited_s))


def goes_on(error: Conflict, wait_s: float | None, waited_s: float) -> bool:
    """Return whether to request the lock once more."""
    return error.slug == "lock-held" and (wait_s is None or waited_s < wait_s)
