"""Real links between forwarders of one test, over loopback sockets.

async with open_links(3) as (one, two, three):
    one.links.serve("GET /x", handler)
    await two.links.peer(one.incarnation).request("GET /x", scope, receive, send)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from edge.asgi import ClientGone
from peering.shared_secret import SharedSecret
from subscribe_forwarder.fleet.links.link import Link
from subscribe_forwarder.fleet.links.network import LinkNetwork

SECRET = SharedSecret(b"a secret of tests")


@dataclass(slots=True)
class End:
    """One forwarder's links."""

    links: LinkNetwork
    incarnation: bytes
    port: int

    def link(self, other: End) -> Link:
        """Return the link to another end; the test fails without one."""
        link = self.links.peer(other.incarnation)
        assert isinstance(link, Link)
        return link


def incarnation_of(number: int) -> bytes:
    return bytes([number]) * 16


async def open_end(number: int, links: LinkNetwork | None = None) -> End:
    """Return an end that listens and is known as that forwarder; it follows nobody yet."""
    links = links or LinkNetwork(SECRET)
    port = await links.start("127.0.0.1", 0)
    incarnation = incarnation_of(number)
    links.identify(incarnation)
    return End(links, incarnation, port)


def follow_each_other(ends: Sequence[End]) -> None:
    live = {end.incarnation: ("127.0.0.1", end.port) for end in ends}
    for end in ends:
        end.links.follow(live)


async def linked(ends: Sequence[End]) -> None:
    """Returns when each has a link to each other."""
    await until(lambda: all(len(end.links.peers()) == len(ends) - 1 for end in ends))


@asynccontextmanager
async def open_links(
    count: int = 2, make: Callable[[], LinkNetwork] = lambda: LinkNetwork(SECRET)
) -> AsyncIterator[list[End]]:
    """Yield `count` forwarders that are linked; their incarnations ascend."""
    ends = [await open_end(number, make()) for number in range(1, count + 1)]
    try:
        follow_each_other(ends)
        await linked(ends)
        yield ends
    finally:
        for end in ends:
            end.links.follow({})
        await asyncio.gather(*(end.links.close(0.2) for end in ends))


async def until(condition: Callable[[], Any], timeout_s: float = 10.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.002)


class Client:
    """A client that waits at the proxy.

    It sends `body` in those parts, and reads what comes unless it is told not to.
    """

    def __init__(self, *body: bytes, scope: dict[str, Any] | None = None) -> None:
        self.scope: dict[str, Any] = {"type": "http", "method": "GET", "headers": []} | (
            scope or {}
        )
        self.messages: list[Any] = []
        self.gone = asyncio.Event()
        self.reads = asyncio.Event()
        self.reads.set()
        self._parts = list(body) or [b""]

    async def receive(self) -> dict[str, Any]:
        if self._parts:
            part = self._parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(self._parts)}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if self.gone.is_set():
            raise ClientGone
        await self.reads.wait()
        self.messages.append(message)

    @property
    def status(self) -> int:
        status: int = self.messages[0]["status"] if self.messages else 0
        return status

    @property
    def body(self) -> bytes:
        return b"".join(bytes(message["body"]) for message in self.messages[1:])

    @property
    def whole(self) -> bool:
        return len(self.messages) > 1 and not self.messages[-1].get("more_body", False)
