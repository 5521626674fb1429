"""The time of a test server, which a test moves on."""

from __future__ import annotations

import contextlib
import threading
import time
from datetime import UTC, datetime

from gateway.testing import postgres_clock
from gateway.testing.installation import Installation, NotStarted

SMALL_S = 2.0
"""What leases of four seconds, renewed each second, live through."""
LAST_S = 1.2
"""The part of a larger step that comes last: pauses before a next try are over after it."""
TAKEN_S = 30.0
READY_S = 60.0
_NOTICED_S = 1.0


class Clock:
    """It never goes back: what one test has moved stays moved for the next ones."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._lock = threading.Lock()

    def time(self) -> float:
        """Seconds since 1970, as the server counts them."""
        return time.time() + self._installation.shared.taken_us / 1e6

    def now(self) -> datetime:
        """The same, in UTC."""
        return datetime.fromtimestamp(self.time(), UTC)

    def advance(self, seconds: float) -> None:
        """It is so much later everywhere, at once. Returns when the server is ready again, in less
        than a second as a rule; what is due by then is done in the moments after. Blocks."""
        if seconds < 0:
            raise ValueError("time goes forwards: advance by 0 seconds or more")
        with self._lock:
            if seconds > SMALL_S:
                self._step(seconds - LAST_S)
                self._until_noticed()
                self._step(LAST_S)
            else:
                self._step(seconds)
            installation = self._installation
            installation.until(installation.log_follows, "on the new time in the log", READY_S)
            installation.until(installation.ready, "ready again", READY_S)

    def advance_to(self, moment: datetime) -> None:
        """The same, to a time of the server's that is yet to come, with its zone."""
        self.advance((moment - self.now()).total_seconds())

    def _step(self, by_s: float) -> None:
        shared = self._installation.shared
        postgres_clock.move(self._installation.database_url, by_s)
        shared.ask(shared.asked_us + round(by_s * 1e6))
        taken = "on the new time"
        self._installation.until(lambda: shared.taken_us == shared.asked_us, taken, TAKEN_S)

    def _until_noticed(self) -> None:
        """The scheduler sees that it may have lost its lock: it works anew from here on."""
        with contextlib.suppress(NotStarted):
            self._installation.until(
                lambda: not self._installation.shared.leading, "noticed", _NOTICED_S
            )
