"""A client of a stream, as the gateway would call it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from edge.asgi import AUTHORISED, CALLER, ClientGone, Handler
from edge.problem import Problem
from tests.unit.subscribe_forwarder.subscribe_support import Consumer

PATH = "/subscriptions/{name}/messages:stream"
REFUSAL = Problem(401, "unauthenticated", "Authentication required")


class OpenStream:
    """A stream with all that the server wrote so far; `blocked` is a client that does not read."""

    def __init__(
        self,
        w: Consumer,
        query: str,
        headers: Mapping[bytes, bytes],
        handler: Handler | None = None,
    ) -> None:
        handler = handler or w.handler("GET", PATH)
        self.scope: dict[str, Any] = {
            "type": "http",
            "method": "GET",
            "path": PATH,
            "packetboat.tenant": w.tenant_id,
            CALLER: AUTHORISED,
            "path_params": {"name": "reader"},
            "query_string": query.encode(),
            "headers": list(headers.items()),
        }
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.writes: list[bytes] = []
        self.whole = False
        self.problem: Problem | None = None
        self.client_gone = asyncio.Event()
        self.refusal: asyncio.Future[Problem] = asyncio.get_running_loop().create_future()
        """The refusal with which the gateway tells that the caller may not go on."""
        self.readable = asyncio.Event()
        self.readable.set()
        self._asked = False
        self.task = asyncio.create_task(self._run(handler))

    async def _run(self, handler: Any) -> None:
        try:
            await handler(self.scope, self._receive, self._send)
        except Problem as problem:
            self.problem = problem
        except ClientGone:
            self.client_gone.set()

    async def _receive(self) -> dict[str, Any]:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        gone = asyncio.create_task(self.client_gone.wait())
        try:
            await asyncio.wait((gone, self.refusal), return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
        if self.refusal.done():
            raise self.refusal.result()
        return {"type": "http.disconnect"}

    async def _send(self, message: Mapping[str, Any]) -> None:
        if self.client_gone.is_set():
            raise ClientGone
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])
            return
        self.writes.append(message["body"])
        self.whole = not message["more_body"]
        await self.readable.wait()

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(line) for line in b"".join(self.writes).splitlines()]

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [one["message"] for one in self.objects if "message" in one]

    @property
    def data(self) -> list[str]:
        return [message["data"] for message in self.messages]

    async def until(self, count: int) -> list[dict[str, Any]]:
        """Wait until `count` messages have come; return them."""
        async with asyncio.timeout(10):
            while len(self.messages) < count and not self.task.done():
                await asyncio.sleep(0.002)
        assert len(self.messages) == count
        return self.messages

    async def ended(self) -> dict[str, Any]:
        """Return the last line of a response that is whole."""
        async with asyncio.timeout(10):
            await self.task
        assert self.whole
        end: dict[str, Any] = self.objects[-1]["end"]
        return end


@asynccontextmanager
async def stream(
    w: Consumer, query: str = "", headers: Mapping[bytes, bytes] | None = None
) -> AsyncIterator[OpenStream]:
    opened = OpenStream(w, query, headers or {})
    try:
        async with asyncio.timeout(10):
            while not opened.writes and not opened.task.done():
                await asyncio.sleep(0.001)
        yield opened
    finally:
        opened.readable.set()
        opened.client_gone.set()
        await opened.task
