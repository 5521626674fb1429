"""The serving side of a request: a peer's client, to the handler the same as one of our own.

The answer's start waits for the first bytes of its body and leaves with them. At most a window of
the answer is unconfirmed, and the last `send` returns when the client's connection has all of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

from edge.asgi import AUTHORISED, CALLER, SUBJECT, TENANT, ClientGone, Scope
from subscribe_forwarder.fleet.links.window import Window
from subscribe_forwarder.fleet.links.wire import (
    CHUNK_BYTES,
    WINDOW_BYTES,
    Answer,
    Body,
    Chunk,
    Gone,
    LinkConnection,
    Offer,
    Request,
    Taken,
    ToServer,
    Verdict,
    Written,
)
from subscribe_forwarder.peers import FORWARDED, RACE


class IncomingRequest:
    """A request as the handler's `receive` and `send`."""

    __slots__ = (
        "_body",
        "_confirmed",
        "_connection",
        "_id",
        "_more",
        "_race",
        "_start",
        "_waker",
        "_window",
        "begun",
        "gone",
        "whole",
    )

    def __init__(self, connection: LinkConnection, head: Request, body: bytes) -> None:
        self.begun = self.whole = self.gone = False
        """The progress of the answer: a part of it was sent, all of it was; and whether the
        client went away.
        """
        self._confirmed = False
        self._connection = connection
        self._id = head.id
        self._body: list[bytes] | None = [body]
        self._more = head.more
        self._waker: asyncio.Future[None] | None = None
        self._start: MutableMapping[str, Any] | None = None
        self._window = Window()
        self._race: asyncio.Future[bool] | None = None

    def scope(self, head: Request) -> Scope:
        """Return the scope as the gateway made it, which has checked the caller's
        permission, and FORWARDED.
        """
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": head.http_version,
            "method": head.method,
            "scheme": head.scheme,
            "path": head.path,
            "raw_path": head.raw_path,
            "root_path": "",
            "query_string": head.query_string,
            "headers": head.headers,
            "client": head.client,
            "path_params": head.path_params,
            FORWARDED: True,
            CALLER: AUTHORISED,
        }
        if head.tenant is not None:
            scope[TENANT] = head.tenant
        if head.subject is not None:
            scope[SUBJECT] = head.subject
        if head.race:
            scope[RACE] = self.race
        return scope

    # Calls of the link.

    def frame(self, head: ToServer, body: bytes) -> None:
        if isinstance(head, Written):
            self._window.confirmed(head.bytes)
            if head.whole:
                self._confirmed = True
                self._window.close()
        elif isinstance(head, Verdict):
            if self._race is not None and not self._race.done():
                self._race.set_result(head.won)
        elif isinstance(head, Gone):
            self.disconnect()
        elif isinstance(head, Body):
            if self._body is not None:
                self._body.append(body)
            self._more = head.more
            self._wake()

    def disconnect(self) -> None:
        """Learn that the client went away, or the link did."""
        if self._confirmed:
            return
        self.gone = True
        self._window.close()
        if self._race is not None and not self._race.done():
            self._race.set_exception(ClientGone())
            self._race.exception()
        self._wake()

    # Calls of the handler.

    async def receive(self) -> MutableMapping[str, Any]:
        while True:
            if self.gone or self.whole:
                return {"type": "http.disconnect"}
            if self._body:
                return self._next_body()
            self._waker = asyncio.get_running_loop().create_future()
            await self._waker

    def _next_body(self) -> MutableMapping[str, Any]:
        assert self._body is not None
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._body = [] if self._more else None
        if self._more and body:
            self._connection.send_or_cut(Taken(self._id, len(body)))
        return {"type": "http.request", "body": body, "more_body": self._more}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Raises ClientGone."""
        if self.gone:
            raise ClientGone
        if message["type"] == "http.response.start":
            if self.begun or self._start is not None:
                raise RuntimeError("the response has begun already")
            self._start = message
            return
        if self.whole or (self._start is None and not self.begun):
            raise RuntimeError(f"{message['type']} is out of place")
        body, more = message.get("body", b""), message.get("more_body", False)
        if len(body) <= CHUNK_BYTES and self._connection.has_room:
            self._send_chunk(body, more=more)
        else:
            await self._send_chunks(memoryview(body), more=more)
        if more:
            await self._window.below(WINDOW_BYTES)
        else:
            await self._window.closed()
        if self.gone:
            raise ClientGone

    async def _send_chunks(self, body: memoryview, *, more: bool) -> None:
        at = 0
        while True:
            chunk = body[at : at + CHUNK_BYTES]
            at += len(chunk)
            await self._window.below(WINDOW_BYTES - len(chunk))
            await self._connection.room(len(chunk))
            if self.gone:
                raise ClientGone
            self._send_chunk(chunk, more=more or at < len(body))
            if at >= len(body):
                return

    def _send_chunk(self, chunk: bytes | memoryview, *, more: bool) -> None:
        if self._start is not None:
            start, self._start = self._start, None
            self.begun = True
            headers = start.get("headers", ())
            answer = Answer(self._id, start["status"], [(k, v) for k, v in headers], more)
            self._connection.send_or_cut(answer, [chunk])
        else:
            self._connection.send_or_cut(Chunk(self._id, more), [chunk])
        self._window.unconfirmed_bytes += len(chunk)
        self.whole = not more

    async def race(self) -> bool:
        """Return whether this one may answer with messages; raises ClientGone."""
        if self.gone:
            raise ClientGone
        if self._race is None:
            self._race = asyncio.get_running_loop().create_future()
            self._connection.send_or_cut(Offer(self._id))
        return await asyncio.shield(self._race)

    def _wake(self) -> None:
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(None)
