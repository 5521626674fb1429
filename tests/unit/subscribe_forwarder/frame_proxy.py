"""A proxy between two ends of a link, which passes frames on until it is told to cut or to
freeze.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from peering.rpc.frames import MAGIC
from subscribe_forwarder.fleet.links.wire import Ping, Pong

_PREFIX = struct.Struct("<III")
_QUIET = {kind.__struct_config__.tag for kind in (Ping, Pong)}


class FrameProxy:
    """Counts the frames of both directions, but for pings; one connection at a time matters."""

    def __init__(self, port: int) -> None:
        self.port = 0
        self.frames: list[str] = []
        """The direction, ">" of the dialer or "<", and the number of each kind of frame."""
        self.cut_before: int | None = None
        """Frames that pass before the connection is cut."""
        self.cut_within = False
        """Half of the first frame that does not pass is passed."""
        self.on_frame: Callable[[str], None] = lambda frame: None
        self._to = port
        self._thawed = asyncio.Event()
        self._thawed.set()
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[Any]] = []

    def freeze(self) -> None:
        """Nothing passes, nothing is cut: the other side is stopped, or the network is gone."""
        self._thawed.clear()

    def thaw(self) -> None:
        self._thawed.set()

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._to)
        self._writers += [writer, back]
        self._tasks += [
            asyncio.create_task(self._pass(">", reader, back)),
            asyncio.create_task(self._pass("<", there, writer)),
        ]

    async def _pass(
        self, direction: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        first = True
        try:
            while True:
                prefix, rest, head_bytes = await _frame(reader, direction, first)
                first = False
                await self._thawed.wait()
                tag = msgspec.msgpack.decode(rest[:head_bytes])[0]
                if tag not in _QUIET:
                    if self.cut_before is not None and len(self.frames) >= self.cut_before:
                        if self.cut_within:
                            writer.write((prefix + rest)[: (len(prefix) + len(rest)) // 2])
                            await writer.drain()
                            await asyncio.sleep(0.01)
                        self.cut()
                        return
                    self.frames.append(f"{direction}{tag}")
                    self.on_frame(self.frames[-1])
                writer.write(prefix + rest)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            writer.close()

    async def close(self) -> None:
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _frame(
    reader: asyncio.StreamReader, direction: str, first: bool
) -> tuple[bytes, bytes, int]:
    """Read a frame; return the bytes before its head, its head and body, and the length of its
    head.

    A dialer's first frame lies as in release 0.2.0; a listener's comes after a mark.
    """
    mark = await reader.readexactly(len(MAGIC)) if first and direction == "<" else b""
    prefix = await reader.readexactly(_PREFIX.size)
    if first and direction == ">":
        head_bytes, body_bytes, _ = _PREFIX.unpack(prefix)
        rest = await reader.readexactly(head_bytes + body_bytes)
    else:
        length, _, head_bytes = _PREFIX.unpack(prefix)
        rest = await reader.readexactly(length - 4)
    return mark + prefix, rest, head_bytes


@asynccontextmanager
async def frame_proxy(port: int) -> AsyncIterator[FrameProxy]:
    proxy = FrameProxy(port)
    server = await asyncio.start_server(proxy._serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
