"""The messages of Postgres' protocol, as far as a relay has to tell them apart."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

PROTOCOL = 196608
CANCEL = 80877102
_UP_TO_READY = b"Z"
_FLUSHED = {b"P": b"1E", b"B": b"2E", b"D": b"TnE", b"E": b"CIsE"}
"""The last message of the answer to what ends with a Flush, by what came before that: of a Parse,
Bind, Describe, Execute. A simple query and a Sync are answered up to ReadyForQuery."""
_READS = ("SELECT", "SHOW", "BEGIN", "SET", "LISTEN", "FETCH", "ROLLBACK")
TIMEOUTS = ("statement_timeout", "idle_in_transaction_session_timeout")
"""Milliseconds that the simulator counts instead of Postgres, in virtual time."""


class Kind(Enum):
    """The kinds of messages that a client sends at once, and how each is answered."""

    STARTUP = "startup"
    CANCEL = "cancel"
    REQUEST = "request"
    TERMINATE = "terminate"


class Unit(NamedTuple):
    """All that a client sends up to where it waits for an answer."""

    kind: Kind
    raw: bytes
    parameters: dict[str, str] = {}  # noqa: RUF012 - of a startup, never changed
    texts: tuple[str, ...] = ()
    """The statements that it names."""
    ends: bytes = _UP_TO_READY
    """Kinds of the message that ends the answer."""


class ClientStream:
    """Cuts what a client sends into units."""

    def __init__(self) -> None:
        self._unread = b""
        self._started = False
        self._unit = b""
        self._texts: list[str] = []
        self._last = b""

    def feed(self, data: bytes) -> Iterator[Unit]:
        """Yield the units that are whole with these bytes."""
        self._unread += data
        while (unit := self._next()) is not None:
            yield unit

    def _next(self) -> Unit | None:
        while True:
            start = 1 if self._started else 0
            if len(self._unread) < start + 4:
                return None
            (size,) = struct.unpack_from("!i", self._unread, start)
            if len(self._unread) < start + size:
                return None
            message, self._unread = self._unread[: start + size], self._unread[start + size :]
            if not self._started:
                return self._first(message)
            self._unit += message
            kind = message[:1]
            if kind == b"Q":
                self._texts.append(message[5:-1].decode())
            elif kind == b"P":
                self._texts.append(message[5:].split(b"\0")[1].decode())
            if kind in b"QSXH":
                raw, self._unit = self._unit, b""
                texts, self._texts = tuple(self._texts), []
                ends = _FLUSHED[self._last] if kind == b"H" else _UP_TO_READY
                sent = Kind.TERMINATE if kind == b"X" else Kind.REQUEST
                return Unit(sent, raw, {}, texts, ends)
            self._last = kind

    def _first(self, message: bytes) -> Unit:
        (code,) = struct.unpack_from("!i", message, 4)
        if code == CANCEL:
            return Unit(Kind.CANCEL, message)
        assert code == PROTOCOL, f"a client began with {code}"
        self._started = True
        words = message[8:].split(b"\0")
        names, values = words[0:-2:2], words[1:-2:2]
        found = {name.decode(): value.decode() for name, value in zip(names, values, strict=True)}
        told = dict.fromkeys(TIMEOUTS, "0")
        body = b"".join(
            name.encode() + b"\0" + value.encode() + b"\0" for name, value in (found | told).items()
        )
        packet = struct.pack("!i", PROTOCOL) + body + b"\0"
        raw = struct.pack("!i", len(packet) + 4) + packet
        return Unit(Kind.STARTUP, raw, found)


class Answer(NamedTuple):
    """The bytes that Postgres sent up to ReadyForQuery, or to the end of the connection."""

    raw: bytes
    status: str
    """`I`, `T` or `E`: outside a transaction, in one, in a failed one; `F`: it goes on, as the
    client asked for a part only; empty: it is closed."""
    wrote: bool
    """Something was committed, or may be."""
    error: str
    """The code of the last error, empty where there was none."""
    told: bytes
    """The part of the answer that is the same in each run of a seed."""


class ServerStream:
    """Cuts what Postgres sends into answers and notifications."""

    def __init__(self) -> None:
        self._unread = b""
        self._answer: list[tuple[bytes, bytes]] = []
        self.pid = 0
        self.notifications: list[bytes] = []
        """The whole messages that came outside an answer."""
        self.heard = 0
        """Notifications that ever came."""

    def feed(self, data: bytes, unit: Unit | None) -> Answer | None:
        """Return the answer to `unit` that is whole with these bytes; None: nothing is
        being asked.
        """
        self._unread += data
        while len(self._unread) >= 5:
            (size,) = struct.unpack_from("!i", self._unread, 1)
            if len(self._unread) < size + 1:
                break
            kind = self._unread[:1]
            message, self._unread = self._unread[: size + 1], self._unread[size + 1 :]
            if kind == b"A":
                self.heard += 1
                if unit is None:
                    self.notifications.append(message)
                    continue
            if kind == b"K":
                (self.pid,) = struct.unpack_from("!i", message, 5)
            self._answer.append((kind, message))
            if unit is not None and kind in unit.ends:
                return self._whole(message[5:6].decode() if kind == b"Z" else "F")
        return None

    def closed(self) -> Answer:
        """Return the answer that came before the end of the connection."""
        return self._whole("")

    def _whole(self, status: str) -> Answer:
        messages, self._answer = self._answer, []
        wrote, error, told = False, "", []
        for kind, message in messages:
            if kind == b"C":
                wrote = wrote or not message[5:-1].decode().startswith(_READS)
            if kind == b"E":
                error = _code(message[5:])
                told.append(error.encode())
            elif kind in b"DCZI":
                told.append(message)
            elif kind == b"A":
                told.append(message[9:])
        raw = b"".join(message for _, message in messages)
        return Answer(raw, status, wrote, error, b"".join(told))


def _code(fields: bytes) -> str:
    for each in fields.split(b"\0"):
        if each[:1] == b"C":
            return each[1:].decode()
    return "?"
