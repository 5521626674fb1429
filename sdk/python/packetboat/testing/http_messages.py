"""HTTP/1.1 as it is on a connection: as much of it as is needed to know where a message ends."""

from __future__ import annotations

from asyncio import IncompleteReadError, LimitOverrunError, StreamReader
from collections.abc import AsyncIterator
from typing import NamedTuple

MAX_HEAD_BYTES = 256 * 1024
_END = b"\r\n\r\n"
_PART_BYTES = 64 * 1024
Broken: tuple[type[EOFError], type[Exception], type[OSError], type[ValueError]] = (
    IncompleteReadError,
    LimitOverrunError,
    OSError,
    ValueError,
)
"""The exceptions that a connection raises when it ends or does not speak HTTP."""


class Head(NamedTuple):
    """The start line and the headers, as they came, and how the body goes on."""

    raw: bytes
    line: str
    length: int | None
    """The length of the body in bytes; None for a body in chunks, or to the end of the
    connection.
    """
    chunked: bool

    @property
    def status(self) -> int:
        """The status of an answer."""
        return int(self.line.split(" ", 2)[1])


async def read_head(reader: StreamReader, before: bytes = b"") -> Head:
    """`before` was read already."""
    raw = before + await reader.readuntil(_END)
    first, *rest = raw.decode("latin-1").split("\r\n")
    headers = {}
    for text in rest:
        name, _, value = text.partition(":")
        headers[name.strip().lower()] = value.strip()
    length = headers.get("content-length")
    chunked = "chunked" in headers.get("transfer-encoding", "").lower()
    return Head(raw, first, None if length is None else int(length), chunked)


async def read_request(reader: StreamReader, before: bytes = b"") -> tuple[Head, bytes]:
    """Return the head of a whole request, and its bytes."""
    head = await read_head(reader, before)
    parts = [head.raw]
    if head.chunked:
        parts += [part async for part in _chunks(reader)]
    elif head.length:
        parts.append(await reader.readexactly(head.length))
    return head, b"".join(parts)


def has_body(method: str, head: Head) -> bool:
    """Return whether an answer to such a request has a body."""
    return method != "HEAD" and head.status >= 200 and head.status not in (204, 304)


async def body(reader: StreamReader, head: Head) -> AsyncIterator[bytes]:
    """Yield the body of an answer, as it comes."""
    if head.chunked:
        async for part in _chunks(reader):
            yield part
        return
    left = head.length
    while left is None or left > 0:
        part = await reader.read(_PART_BYTES if left is None else min(left, _PART_BYTES))
        if not part:
            if left:
                raise IncompleteReadError(b"", left)
            return
        left = None if left is None else left - len(part)
        yield part


async def _chunks(reader: StreamReader) -> AsyncIterator[bytes]:
    """Yield the chunks with their sizes, and the trailers."""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.partition(b";")[0], 16)
        yield line
        if size == 0:
            break
        yield await reader.readexactly(size + 2)
    while line != b"\r\n":
        line = await reader.readuntil(b"\r\n")
        yield line
