"""Answers that go on: what their lines are, and when to open the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from packetboat.calls.bodies import audit_query
from packetboat.calls.call import StreamCall, get, part, path_of
from packetboat.errors import (
    NotAuthorized,
    PacketboatError,
    Problem,
    ServerError,
    UnknownOutcome,
    error_of,
)
from packetboat.models import AuditEntry, BacklogUpdate, Message
from packetboat.tries import Retries

SILENCE_S = 20.0
"""Seconds after a missed heartbeat at which the client treats the stream as dead."""
SHORT_S = 1.0
"""A stream that its token ended so soon is not opened again."""
MAX_LINE_BYTES = 64 * 1024 * 1024


class End(msgspec.Struct, frozen=True):
    """The reason why a server ended a stream: `draining`, `max_seconds`, or `problem`."""

    reason: str = ""
    problem: Problem | None = None


class _Removed(msgspec.Struct, frozen=True):
    subscription: str
    time: datetime


class Line(msgspec.Struct, frozen=True):
    """One line of a stream.

    One of its members is set; a line with none of them is unknown to us.
    """

    message: Message | None = None
    backlog: BacklogUpdate | None = None
    removed: _Removed | None = None
    end: End | None = None

    @property
    def update(self) -> BacklogUpdate | None:
        """The update in a line of a stream of backlogs."""
        if self.removed is None:
            return self.backlog
        return BacklogUpdate(self.removed.subscription, self.removed.time, removed=True)


_line = msgspec.json.Decoder(Line)


def stream_call(path: str, query: Mapping[str, Any], heartbeat_seconds: float) -> StreamCall:
    """Return a call whose lines come at least as often as heartbeats do."""
    request = get(path, {**query, "heartbeat_seconds": heartbeat_seconds})
    return StreamCall(request._replace(timeout_s=heartbeat_seconds + SILENCE_S))


def stream_backlog(
    name: str,
    min_messages: int | None,
    heartbeat_seconds: float,
    max_seconds: float | None,
) -> StreamCall:
    query = {"min_messages": min_messages, "max_seconds": max_seconds}
    return stream_call(f"{path_of(name)}/backlog:stream", query, heartbeat_seconds)


def stream_backlogs(
    subscriptions: Sequence[str],
    min_messages: int | None,
    heartbeat_seconds: float,
    max_seconds: float | None,
) -> StreamCall:
    """Open the stream of these names, or beginnings of names and a `*`; without any, of all."""
    query = {
        "subscription": list(subscriptions) or None,
        "min_messages": min_messages,
        "max_seconds": max_seconds,
    }
    return stream_call("/backlog:stream", query, heartbeat_seconds)


def export_own_audit(filters: Mapping[str, Any]) -> StreamCall:
    return StreamCall(get("/audit:export", audit_query(filters)))


def export_audit(tenant: str, filters: Mapping[str, Any]) -> StreamCall:
    return StreamCall(get(f"/tenants/{part(tenant)}/audit:export", audit_query(filters)))


def read_entry(line: bytes) -> AuditEntry:
    """Return the change that a line has. Raise ServerError where it has none."""
    try:
        return msgspec.json.decode(line, type=AuditEntry)
    except msgspec.MsgspecError as error:
        raise ServerError(200, f"unexpected line ({error})") from error


class Splitter:
    """Chunks in, whole lines out."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size_bytes = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that end in this chunk. Raises ServerError for one that is too long."""
        head, newline, rest = chunk.partition(b"\n")
        while newline:
            yield b"".join((*self._parts, head))
            self._parts.clear()
            self._size_bytes = 0
            head, newline, rest = rest.partition(b"\n")
        self._parts.append(head)
        self._size_bytes += len(head)
        if self._size_bytes > MAX_LINE_BYTES:
            raise ServerError(200, f"a line of more than {MAX_LINE_BYTES} bytes")


def decode_line(text: bytes) -> Line:
    """Raises ServerError where it is none."""
    try:
        return _line.decode(text)
    except msgspec.MsgspecError as error:
        raise ServerError(200, f"unexpected line ({error})") from error


class Reopening:
    """The state of a stream that continues over one answer after another: the next call, and its
    time.

    The end of a stream for good is raised: a problem that time does not heal, or access that is
    over. After an answer that was cut off, a server that stops, or a token that has expired, the
    next answer follows, for as long as `reopen_for_s` since the last line; None: for ever. A
    failure of the first opening is raised.
    """

    def __init__(
        self,
        call_of: Callable[[float | None], StreamCall],
        now_s: float,
        *,
        max_seconds: float | None,
        reopen_for_s: float | None,
    ) -> None:
        self._call_of = call_of
        self._ends_s = None if max_seconds is None else now_s + max_seconds
        self._reopen_for_s = float("inf") if reopen_for_s is None else reopen_for_s
        self._opened_s: float | None = None
        self._began = False
        self._over = False
        self._retries: Retries | None = None

    def call(self, now_s: float) -> StreamCall | None:
        """Return the next call; None if the requested time is over."""
        self._opened_s = None
        if self._ends_s is None:
            return None if self._over else self._call_of(None)
        left_s = self._ends_s - now_s
        return None if self._over or left_s <= 0 else self._call_of(left_s)

    @property
    def over(self) -> bool:
        """The server ended it as it was asked to."""
        return self._over

    def opened(self, now_s: float) -> None:
        """Note that the head of the answer came."""
        self._opened_s = now_s
        self._began = True

    def line(self, text: bytes) -> Line:
        """Return the decoded line; raises the problem that ends the stream."""
        line = decode_line(text)
        self._retries = None
        if line.end is not None:
            self._over = line.end.reason == "max_seconds"
            if line.end.problem is not None:
                raise error_of(line.end.problem)
        return line

    def pause_s(self, error: PacketboatError | None, now_s: float) -> float:
        """Return the pause after an answer ended or failed; raises an error that ends the stream
        for good.

        `error` is None if the answer ended by itself, with or without saying so.
        """
        cause = error or UnknownOutcome("the stream was cut off")
        if not self._began:
            raise cause
        if isinstance(cause, NotAuthorized) and not self._expired(cause, now_s):
            raise cause
        if isinstance(cause, NotAuthorized):
            return 0.0
        if self._retries is None:
            self._retries = Retries(self._reopen_for_s, True, now_s)
        pause_s = self._retries.pause_s(cause, now_s)
        if pause_s is None:
            raise cause
        return pause_s

    def _expired(self, error: NotAuthorized, now_s: float) -> bool:
        """The token of an open stream is over: the next one may have another."""
        opened_s = self._opened_s
        return error.status == 401 and opened_s is not None and now_s - opened_s > SHORT_S
