"""The rules for retries of a call: only where a retry is safe, with full jitter, within a
total time.
"""

from __future__ import annotations

import logging
import random

from packetboat.errors import (
    ConnectionFailed,
    Overloaded,
    PacketboatError,
    Unavailable,
    UnknownOutcome,
    UntrustedServer,
)

FIRST_S = 0.05
MAX_S = 2.0


_log = logging.getLogger("packetboat")


class RetryWarning:
    """Logs one warning when a client begins to send again, and no more until a call succeeds."""

    def __init__(self, server: str | None) -> None:
        self._server = server
        self._told = False

    def sent_again(self, error: PacketboatError, for_s: float) -> None:
        """Record that a failed call will be sent again, for `for_s` seconds in all."""
        if not self._told:
            self._told = True
            at = "" if self._server is None else f" [{self._server}]"
            _log.warning("%s%s; it is tried again for up to %g s", error.text, at, for_s)

    def succeeded(self) -> None:
        """The server took a call."""
        self._told = False


class Retries:
    """The tries of one call."""

    def __init__(self, total_s: float, safe: bool, started_s: float) -> None:
        self._deadline_s = started_s + total_s
        self._safe = safe
        self._tries = 0

    def pause_s(self, error: PacketboatError, now_s: float) -> float | None:
        """Return the seconds before the next try; None if the caller gets the error.

        A call that was refused before it took effect may be sent again; a call that may have taken
        effect is sent again only where a repetition does no harm.
        """
        if isinstance(error, UntrustedServer):
            return None
        harmless = isinstance(error, ConnectionFailed | Overloaded | Unavailable)
        if not harmless and not (self._safe and isinstance(error, UnknownOutcome)):
            return None
        pause_s = random.uniform(0, min(MAX_S, FIRST_S * 2**self._tries))
        if isinstance(error, Overloaded | Unavailable) and error.retry_after_s is not None:
            pause_s += error.retry_after_s
        self._tries += 1
        return pause_s if now_s + pause_s < self._deadline_s else None
