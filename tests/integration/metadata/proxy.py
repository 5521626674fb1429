"""A TCP proxy in front of Postgres whose two directions can be held, and which can be cut."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit


class Proxy:
    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.requests = asyncio.Event()
        self.answers = asyncio.Event()
        self.requests.set()
        self.answers.set()

    async def start(self) -> str:
        """Start the proxy; return the URL to connect to."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        where = f"{self._target.username}:{self._target.password}@127.0.0.1:{port}"
        return f"postgresql://{where}{self._target.path}"

    def cut(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        up_reader, up_writer = await asyncio.open_connection(
            self._target.hostname, self._target.port
        )
        try:
            await asyncio.gather(
                _pump(reader, up_writer, self.requests), _pump(up_reader, writer, self.answers)
            )
        except asyncio.CancelledError:
            pass
        finally:
            writer.transport.abort()
            up_writer.transport.abort()


async def _pump(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, gate: asyncio.Event
) -> None:
    try:
        while data := await source.read(65536):
            await gate.wait()
            sink.write(data)
            await sink.drain()
        await gate.wait()
        sink.write_eof()
    except OSError:
        return
