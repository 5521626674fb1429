"""The links between store nodes, each direction of each at will: a TCP proxy before every node.

All processes know a node by its proxy's address; the node listens elsewhere. The proxy reads the id
of the dialling node from the first frame (a lower id dials a higher one, so a pair has one
connection, and both directions pass here). Clients pass untouched.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable

from peering.rpc.frames import HANDSHAKE_FRAME_BYTES, BadFrame, FrameReader
from store_nodes.wire import WIRE, Hello, Role

HOST = "127.0.0.1"
CHUNK_BYTES = 64 * 1024
Link = tuple[int, int]
"""A direction of a link: (from, to)."""


class Links:
    """Proxies of a cluster: `real` is where each node listens. Use as a context manager."""

    def __init__(
        self,
        addresses: dict[int, tuple[str, int]],
        real: dict[int, tuple[str, int]],
        seed: int = 0,
    ) -> None:
        self.blocked: set[Link] = set()
        """The links on which bytes wait, as in a network that drops everything."""
        self.corrupt: dict[Link, float] = {}
        """The chance that a bit of a chunk flips."""
        self.delay_s: dict[Link, float] = {}
        self.flipped = 0
        self._addresses = addresses
        self._real = real
        self._dice = random.Random(seed)
        self._servers: list[asyncio.Server] = []
        self._open: dict[asyncio.StreamWriter, Link | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def isolate(self, node: int, others: Iterable[int], *, sends: bool, hears: bool) -> None:
        """Cut the node's traffic with these, but for the directions that still pass."""
        for other in others:
            self._block((node, other), not sends)
            self._block((other, node), not hears)

    def _block(self, link: Link, blocked: bool) -> None:
        (self.blocked.add if blocked else self.blocked.discard)(link)

    def heal(self) -> None:
        """Everything passes again."""
        self.blocked.clear()
        self.corrupt.clear()
        self.delay_s.clear()

    def reset(self, node: int) -> None:
        """Send RST on every connection of the node with its peers."""
        for writer, link in list(self._open.items()):
            if link is not None and node in link:
                writer.transport.abort()

    async def __aenter__(self) -> Links:
        for node, (host, port) in self._addresses.items():

            def accept(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, node: int = node
            ) -> None:
                task = asyncio.create_task(self._serve(node, reader, writer))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

            self._servers.append(await asyncio.start_server(accept, host, port))
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(
        self, node: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        back: asyncio.StreamWriter | None = None
        try:
            first, dialer = await _who(reader)
            link = (dialer, node) if dialer else None
            while link is not None and link in self.blocked:
                await asyncio.sleep(0.02)
            answers, back = await asyncio.open_connection(*self._real[node])
            back.write(first)
            self._open[writer] = self._open[back] = link
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(reader, back, link))
                pumps.create_task(self._pump(answers, writer, link and (link[1], link[0])))
        except* (OSError, EOFError, BadFrame):
            pass
        finally:
            for end in (writer, back):
                if end is not None:
                    self._open.pop(end, None)
                    end.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: Link | None
    ) -> None:
        while chunk := await reader.read(CHUNK_BYTES):
            if link is not None:
                chunk = await self._through(chunk, link)
            writer.write(chunk)
            await writer.drain()
        raise EOFError

    async def _through(self, chunk: bytes, link: Link) -> bytes:
        if delay_s := self.delay_s.get(link, 0.0):
            await asyncio.sleep(delay_s)
        while link in self.blocked:
            await asyncio.sleep(0.02)
        if self._dice.random() < self.corrupt.get(link, 0.0):
            harmed = bytearray(chunk)
            harmed[self._dice.randrange(len(harmed))] ^= 1 << self._dice.randrange(8)
            self.flipped += 1
            return bytes(harmed)
        return chunk


async def _who(reader: asyncio.StreamReader) -> tuple[bytes, int]:
    """Return (the bytes read, the node that dials or 0 for a client)."""
    frames = FrameReader(WIRE.decode, HANDSHAKE_FRAME_BYTES)
    read = b""
    while True:
        chunk = await reader.read(CHUNK_BYTES)
        if not chunk:
            raise EOFError
        read += chunk
        frames.get_buffer()[: len(chunk)] = chunk
        frames.filled(len(chunk))
        while (frame := frames.next()) is not None:
            head, _ = frame
            if isinstance(head, Hello) and head.role == Role.PEER:
                return read, head.node
            return read, 0
