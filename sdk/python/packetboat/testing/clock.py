"""The time of a test server, which a test moves on."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime

from packetboat.testing.server import Server


class Clock:
    """The clock of the test server.

    It never goes back: the time that one test advances stays advanced for the next tests.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._ahead_s = 0.0

    def time(self) -> float:
        """Return the seconds since 1970 by the server's clock."""
        return time.time() + self._ahead_s

    def now(self) -> datetime:
        """Return the server's time in UTC."""
        return datetime.fromtimestamp(self.time(), UTC)

    def advance(self, seconds: float) -> None:
        """Advance the time of the whole server by `seconds`, at once.

        The call blocks until the server is ready again, in less than a second as a rule; work that
        is due by then is done in the moments after.
        """
        if seconds < 0:
            raise ValueError("time goes forwards: advance by 0 seconds or more")
        with self._lock:
            self._ahead_s = self._server.advance(seconds)

    def advance_to(self, moment: datetime) -> None:
        """Advance the server's time to a later moment, given with its zone."""
        self.advance((moment - self.now()).total_seconds())
