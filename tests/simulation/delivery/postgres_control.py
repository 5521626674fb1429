"""The simulator's own connection to Postgres: blocking, simple statements, answers as text."""

from __future__ import annotations

import socket
import struct

from metadata.postgres.embedded import DATABASE, SUPERUSER

PROTOCOL = 196608


class ControlFailed(Exception):
    """Postgres refused what the simulator asked; with its message."""


class ControlConnection:
    """Asks which statements wait for locks, and hears which notifications were committed."""

    def __init__(self, port: int, database: str = DATABASE) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread = b""
        self.notified: list[tuple[str, str]] = []
        """Channel and payload of each notification heard so far."""
        parameters = f"user\0{SUPERUSER}\0database\0{database}\0application_name\0simulator\0\0"
        packet = struct.pack("!i", PROTOCOL) + parameters.encode()
        self._socket.sendall(struct.pack("!i", len(packet) + 4) + packet)
        self._rows()

    def query(self, text: str) -> list[tuple[str | None, ...]]:
        """Return the rows of one statement. Raises ControlFailed."""
        body = text.encode() + b"\0"
        self._socket.sendall(b"Q" + struct.pack("!i", len(body) + 4) + body)
        return self._rows()

    def close(self) -> None:
        self._socket.close()

    def _rows(self) -> list[tuple[str | None, ...]]:
        rows: list[tuple[str | None, ...]] = []
        failure = None
        while True:
            kind, body = self._message()
            if kind == b"D":
                rows.append(_row(body))
            elif kind == b"E":
                failure = body
            elif kind == b"A":
                channel, payload, _ = body[4:].split(b"\0")
                self.notified.append((channel.decode(), payload.decode()))
            elif kind == b"Z":
                break
        if failure is not None:
            raise ControlFailed(failure.replace(b"\0", b" ").decode(errors="replace"))
        return rows

    def _message(self) -> tuple[bytes, bytes]:
        head = self._read(5)
        (size,) = struct.unpack("!i", head[1:])
        return head[:1], self._read(size - 4)

    def _read(self, size: int) -> bytes:
        while len(self._unread) < size:
            more = self._socket.recv(65536)
            if not more:
                raise ControlFailed("Postgres closed the simulator's connection")
            self._unread += more
        taken, self._unread = self._unread[:size], self._unread[size:]
        return taken


def _row(body: bytes) -> tuple[str | None, ...]:
    (columns,) = struct.unpack_from("!h", body)
    values: list[str | None] = []
    at = 2
    for _ in range(columns):
        (size,) = struct.unpack_from("!i", body, at)
        at += 4
        if size < 0:
            values.append(None)
            continue
        values.append(body[at : at + size].decode())
        at += size
    return tuple(values)
