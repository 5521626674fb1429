"""The tries of one call: what each may take, and what becomes of its error."""

from __future__ import annotations

import logging
import random

from packetboat.errors import (
    ConnectionFailed,
    NotDone,
    Overloaded,
    PacketboatError,
    Unavailable,
    UnknownOutcome,
    UntrustedServer,
)
from packetboat.options import Options
from packetboat.transport.seam import TIMEOUT_S, Request

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
    """The retries of one call: only where one is safe, with full jitter, within a total time."""

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


class Tries:
    """With a deadline all is over by then. Without one, no try begins after `retry_for_s`."""

    def __init__(
        self,
        request: Request,
        options: Options,
        now_s: float,
        *,
        safe: bool,
        idempotency_key: str | None = None,
        deadline_s: float | None = None,
    ) -> None:
        self._request = request._replace(
            timeout_s=request.timeout_s - TIMEOUT_S + options.timeout_s
        )
        self._ends_s = None if deadline_s is None else now_s + deadline_s
        total_s = options.retry_for_s if deadline_s is None else deadline_s
        self._retries = Retries(total_s, safe, now_s)
        self._idempotency_key = idempotency_key
        self._may_have_done = False
        self._began_s = now_s
        self._tries = 0
        self.total_s: float = total_s
        """Seconds for which the call is tried."""

    def request(self, now_s: float) -> Request:
        """Return the request of the next try."""
        self._tries += 1
        if self._ends_s is None:
            return self._request
        return self._request.within(min(self._ends_s - now_s, self._request.timeout_s))

    def pause_s(self, error: PacketboatError, now_s: float) -> float | None:
        """Return the seconds before the next try; None if the call ends, with `outcome`."""
        if isinstance(error, UnknownOutcome) and self._request.method != "GET":
            self._may_have_done = True
        return self._retries.pause_s(error, now_s)

    def outcome(self, error: PacketboatError, now_s: float, server: str | None) -> PacketboatError:
        """Return the error for the caller when the last try ended with `error`: if that try
        did nothing, an earlier one may still have taken effect.
        """
        if isinstance(error, NotDone) and self._may_have_done:
            text = f"an earlier try may have done it; the last: {error.text}"
            unknown = UnknownOutcome(text, getattr(error, "problem", None))
            unknown.__cause__ = error
            error = unknown
        if isinstance(error, UnknownOutcome):
            error.idempotency_key = self._idempotency_key
        error.server = server
        error.tries = self._tries
        error.tried_s = now_s - self._began_s
        return error
