"""An HTTP/1.1 client that sends what it is given, byte for byte, and reads what comes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Iterable

NO_ANSWER = 0
"""Stands for the status of a request that was not answered in time."""
CUT = -1
"""And of one whose connection the server ended instead."""
READ_BYTES = 64 * 1024


class Connection:
    """One at a time; opened again when the server has ended it."""

    def __init__(self, host: str, port: int) -> None:
        self._address = host, port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, request: bytes, within_s: float) -> int:
        """Return the status of the answer, read to its end within that time."""
        try:
            async with asyncio.timeout(within_s):
                return await self._ask(request)
        except TimeoutError:
            self.close()
            return NO_ANSWER
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            self.close()
            return CUT

    async def _ask(self, request: bytes) -> int:
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(
                *self._address, limit=4 * READ_BYTES
            )
        reader, writer = self._reader, self._writer
        assert reader is not None
        sending = asyncio.ensure_future(_send(writer, request))
        try:
            head = b"HTTP/1.1 100 "
            while head.startswith(b"HTTP/1.1 1"):
                head = await reader.readuntil(b"\r\n\r\n")
            status = int(head[9:12])
            fields = head.lower()
            await _skip_body(reader, fields, bodiless=status in (204, 304))
        finally:
            if not sending.done():
                # It was answered before all of it was sent: what is on the way has no meaning now.
                sending.cancel()
                self.close()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await sending
        if b"connection: close" in fields:
            self.close()
        return status

    def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.transport.abort()


async def _send(writer: asyncio.StreamWriter, request: bytes) -> None:
    writer.write(request)
    await writer.drain()


async def _skip_body(reader: asyncio.StreamReader, fields: bytes, *, bodiless: bool) -> None:
    if b"\r\ntransfer-encoding: chunked" in fields:
        while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
            await _skip(reader, size + 2)
        await reader.readuntil(b"\r\n")
        return
    at = fields.find(b"\r\ncontent-length:")
    if at >= 0 and not bodiless:
        await _skip(reader, int(fields[at + 17 :].partition(b"\r\n")[0]))


async def _skip(reader: asyncio.StreamReader, count: int) -> None:
    while count:
        part = await reader.read(min(count, READ_BYTES))
        if not part:
            raise asyncio.IncompleteReadError(part, count)
        count -= len(part)


async def send_all(
    address: tuple[str, int],
    requests: Iterable[bytes],
    *,
    connections: int,
    within_s: float,
    rate: float | None = None,
    slow: dict[int, float] | None = None,
) -> Counter[int]:
    """Return the count of each answered status.

    At most `rate` requests begin in a second. `slow` gets the seconds that each numbered request
    took.
    """
    left = enumerate(requests)
    statuses: Counter[int] = Counter()
    began_s = time.monotonic()

    async def one() -> None:
        connection = Connection(*address)
        try:
            for number, request in left:
                if rate is not None:
                    await asyncio.sleep(began_s + number / rate - time.monotonic())
                asked_s = time.monotonic()
                statuses[await connection.ask(request, within_s)] += 1
                if slow is not None:
                    slow[number] = time.monotonic() - asked_s
        finally:
            connection.close()

    await asyncio.gather(*(one() for _ in range(connections)))
    return statuses
