"""The relay of a request to a local handler here or elsewhere, and of its answer back.

The invariant: no messages leave a process that does not hold its own lease, not even another
forwarder's: the process may have slept on them for longer than their owner lived.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from edge.asgi import ClientGone, Receive, Scope, Send
from edge.departure import DEPARTURE
from subscribe_forwarder.peers import PART


class ProxyPaused(ClientGone):
    """This process had no lease when the answer was there: it was not passed on."""


class Relay:
    """The `send` of a handler whose answer goes to the client.

    The head is kept until the first bytes of the body are there, so that an answer that breaks
    before them can be asked for again.
    """

    def __init__(self, send: Send, holds_lease: Callable[[], bool]) -> None:
        self.begun = False
        """Something has left: it cannot be asked for again."""
        self.refused = False
        self._send = send
        self._holds_lease = holds_lease
        self._head: Any = None

    async def send(self, message: Any) -> None:
        """Raises ProxyPaused, and what the client's `send` raises."""
        if message["type"] == "http.response.start":
            self._head = message
            return
        if not self.begun:
            if not self._holds_lease():
                self.refused = True
                raise ProxyPaused
            self.begun = True
            await self._send(self._head)
        await self._send(message)


class Captured:
    """The `send` of a handler whose answer is part of another one."""

    def __init__(self) -> None:
        self.status = 0
        self._body: list[bytes] = []

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self._body.append(message.get("body", b""))

    @property
    def body(self) -> bytes:
        return b"".join(self._body)


def receiving(body: bytes) -> Receive:
    """Return the `receive` of a request that is there already.

    Cancelling tells that its client went away.
    """
    given = False

    async def receive() -> Any:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await asyncio.get_running_loop().create_future()

    return receive


def part_of(
    scope: Scope,
    keys: Mapping[str, object] | None = None,
    *,
    query: Mapping[str, object] | None = None,
    headers: list[tuple[bytes, bytes]] | None = None,
) -> Scope:
    """Return the request as one of those who share it gets it; `keys` are scope keys of its own."""
    part = {**scope, PART: True, **(keys or {})}
    part.pop(DEPARTURE, None)  # the request that is shared watches for its client
    if query is not None:
        part["query_string"] = urlencode(query).encode("ascii")
    if headers is not None:
        part["headers"] = headers
    return part
