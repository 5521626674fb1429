"""The time of a test server, which a test moves on."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime

from packetboat.testing.server import Server


class Clock:
    """It never goes back: what one test has moved stays moved for the next ones."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._ahead_s = 0.0

    def time(self) -> float:
        """Seconds since 1970, as the server counts them."""
        return time.time() + self._ahead_s

    def now(self) -> datetime:
        """The same, in UTC."""
        return datetime.fromtimestamp(self.time(), UTC)

    def advance(self, seconds: float) -> None:
        """It is so much later everywhere, at once. Returns when the server is ready again, in less
        than a second as a rule; what is due by then is done in the moments after. Blocks."""
        if seconds < 0:
            raise ValueError("time goes forwards: advance by 0 seconds or more")
        with self._lock:
            self._ahead_s = self._server.advance(seconds)

    def advance_to(self, moment: datetime) -> None:
        """The same, to a time of the server's that is yet to come, with its zone."""
        self.advance((moment - self.now()).total_seconds())
