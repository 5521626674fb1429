"""Requests leave nothing to the collector of garbage, whose collections keep all others waiting.

400 waits of one tenant once left very many objects in reference cycles: an error
and the frames that it came through, a connection and its account. Collections took up to 228 ms.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import types
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from auth.principal import Principal, everything
from edge.asgi import Receive, Route, Scope, Send, respond, tenant_of
from edge.problem import Problem
from gateway.app import create_app
from gateway.http.server import HttpServer
from gateway.locks.locks import LockRoutes
from gateway.locks.wait_list import LockWaitList
from gateway.readiness import Readiness
from gateway.server import hypercorn_config
from harness.made_up_routes import made_up
from metadata.database import Connection, Database
from metadata.errors import NotFound
from metadata.locks.catalog import LockCatalog
from metadata.locks.locks import Claim, Held
from metadata.locks.waiters import Ticket
from metadata.settings import DatabaseSettings
from tests.abuse.connections import CLIENT_HELLO, HEADERS, PREFACE, SETTINGS, frame
from tests.unit.subscribe_forwarder import subscribe_support as forwarders

REQUESTS = 40
WARM = 5
"""Requests before those that count: what is made once stays."""
LEAVES_S = 0.1
MOST_OBJECTS = REQUESTS // 2
"""Objects that a collection may find after REQUESTS requests, so less than one for each."""
STREAMS = 3
END_STREAM, END_HEADERS = 1, 4
GET_OVER_HTTP2 = b"\x82\x84\x86\x41\x01a"
"""The fields of `GET /` to the authority `a`."""
WAITS, GONE = "wait_seconds=0.2", "wait_seconds=60"


class Tokens:
    async def verify(self, token: bytes) -> Principal:
        return Principal(forwarders.TENANT, "key:k", everything())


class Pool:
    """Lend the same connection to each operation."""

    async def acquire(self, **_: object) -> Pool:
        return self

    async def release(self, *_: object, **__: object) -> None: ...

    def is_closed(self) -> bool:
        return False


class Locks:
    """Every lock is held by somebody else, and there is room in each line."""

    def __init__(self) -> None:
        self.tickets = 0

    async def acquire(self, claim: Claim, ticket: int) -> Held:
        await asyncio.sleep(0)
        return Held("somebody", 60.0)

    async def join(self, tenant_id: bytes, name: str) -> Ticket:
        self.tickets += 1
        return Ticket(tenant_id, name, self.tickets)

    async def leave(self, place: Ticket) -> None: ...


async def answered(scope: Scope, receive: Receive, send: Send) -> None:
    await respond(send, 200, b"{}")


async def refused(scope: Scope, receive: Receive, send: Send) -> None:
    problem = Problem(409, "no", "No", "No.")
    try:
        raise problem
    except Problem as error:
        raise Problem(404, "none", "None", "None.") from error


def refused_by_postgres() -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    database = Database(DatabaseSettings("postgresql://nowhere"))
    database._pool = Pool()

    async def work(_: Connection) -> None:
        raise NotFound("topic", "none")

    async def handler(scope: Scope, receive: Receive, send: Send) -> None:
        await database.statement(work, writes=False, tenant_id=tenant_of(scope))

    return handler


def lock_routes() -> list[Route]:
    locks: Any = Locks()
    database = Database(DatabaseSettings("postgresql://nowhere"))
    line = LockWaitList(database, locks=locks)
    line._places = locks
    return LockRoutes(locks, LockCatalog(database), line).routes()


@asynccontextmanager
async def served(*, own: bool = True) -> AsyncIterator[int]:
    """Serve a forwarder's routes, those of locks, and some that end in one way each; the port."""
    async with forwarders.world() as world:
        routes = [
            made_up("GET", "/answered", answered, "read", "*"),
            made_up("GET", "/refused", refused, "read", "*"),
            made_up("GET", "/by-postgres", refused_by_postgres(), "read", "*"),
            *forwarders.routes_of(world),
            *lock_routes(),
        ]
        app = create_app(routes, Tokens(), Readiness())
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        server = HttpServer(app, hypercorn_config(), own=own, http2=own)
        await server.start(listener)
        try:
            yield listener.getsockname()[1]
        finally:
            await server.close(0.5)


async def ask(port: int, method: str, target: str, body: bytes, leaves: bool) -> bytes:
    """Send one request on a connection of its own; return the status line of its answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        f"{method} {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n"
        f"Authorization: Bearer x\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    answer = b""
    try:
        async with asyncio.timeout(LEAVES_S if leaves else 10):
            answer = await reader.read()
    except TimeoutError:
        assert leaves, f"no answer to {target}"
    writer.close()
    return answer.partition(b"\r\n")[0]


async def over_http2(port: int) -> bytes:
    """Send STREAMS requests on a connection of HTTP/2, and leave once something is answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(PREFACE + frame(SETTINGS, 0))
    for number in range(STREAMS):
        writer.write(frame(HEADERS, 2 * number + 1, GET_OVER_HTTP2, flags=END_STREAM | END_HEADERS))
    answer = await reader.read(1)
    await asyncio.sleep(LEAVES_S)
    writer.close()
    return answer


async def garbage(send: Callable[[], Awaitable[bytes]]) -> tuple[bytes, Counter[str]]:
    """Return the last answer's status line, and the types of objects that a collection finds."""
    for _ in range(WARM):
        status = await send()
    await asyncio.sleep(0.05)
    gc.collect()
    gc.disable()
    try:
        await asyncio.gather(*(send() for _ in range(REQUESTS)))
        await asyncio.sleep(0.05)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        # The client of this test is no part of the product.
        found = Counter(_named(each) for each in gc.garbage if not _of_client(each))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    return status, found


def _of_client(one: object) -> bool:
    return type(one).__module__ == "asyncio.streams"


def _named(one: object) -> str:
    if isinstance(one, types.FrameType):
        return f"frame of {one.f_code.co_name}"
    return type(one).__qualname__


KINDS = {
    "an answer": (b"200", "GET", "/answered", b"", False),
    "a refusal": (b"404", "GET", "/refused", b"", False),
    "a refusal by Postgres": (b"404", "GET", "/by-postgres", b"", False),
    "a path that is none": (b"404", "GET", "/none", b"", False),
    "a pull": (b"200", "GET", "/subscriptions/reader/messages", b"", False),
    "a pull that waits": (b"200", "GET", f"/subscriptions/reader/messages?{WAITS}", b"", False),
    "a pull whose client leaves": (
        b"",
        "GET",
        f"/subscriptions/reader/messages?{GONE}",
        b"",
        True,
    ),
    "a stream": (b"200", "GET", "/subscriptions/reader/messages:stream?max_seconds=1", b"", False),
    "a stream whose client leaves": (
        b"",
        "GET",
        "/subscriptions/reader/messages:stream?max_seconds=60",
        b"",
        True,
    ),
    "a lock that is held": (b"409", "POST", "/locks/a:acquire", b"{}", False),
    "a wait for a lock": (b"409", "POST", "/locks/a:acquire", b'{"wait_seconds": 0.2}', False),
    "a wait for a lock whose client leaves": (
        b"",
        "POST",
        "/locks/a:acquire",
        b'{"wait_seconds": 60}',
        True,
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_leaves_nothing_to_the_collector_of_garbage(kind: str) -> None:
    expected, *request = KINDS[kind]

    async def run() -> tuple[bytes, Counter[str]]:
        async with served() as port:
            return await garbage(lambda: ask(port, *request))

    status, found = uvloop.run(run())
    assert expected in status
    assert found.total() <= MOST_OBJECTS, found.most_common(12)


@pytest.mark.parametrize("over", ["HTTP/2", "Hypercorn alone"])
def test_a_connection_of_hypercorn_leaves_nothing_to_the_collector_of_garbage(over: str) -> None:
    """The objects of a connection are freed with it. They were 2,000 with 100 streams of HTTP/2."""

    async def run() -> tuple[bytes, Counter[str]]:
        async with served(own=over == "HTTP/2") as port:
            if over == "HTTP/2":
                return await garbage(lambda: over_http2(port))
            return await garbage(lambda: ask(port, "GET", "/answered", b"", leaves=False))

    status, found = uvloop.run(run())
    assert status
    assert found.total() <= MOST_OBJECTS, found.most_common(12)


FIRST_BYTES = {
    "nothing": b"",
    "a byte": b"\x01",
    "a request": b"GET /answered HTTP/1.1\r\nHost: a\r\n\r\n",
    "a part of a head": b"GET /answered HTTP/1.1\r\nHost: a",
    "a chunked body": b"POST /none HTTP/1.1\r\nHost: a\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "the preface of HTTP/2": PREFACE,
    "the hello of TLS": CLIENT_HELLO,
}


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("kind", FIRST_BYTES)
def test_a_connection_that_ends_at_once_leaves_nothing_to_the_collector_of_garbage(
    kind: str, reset: bool
) -> None:
    first = FIRST_BYTES[kind]

    async def run() -> Counter[str]:
        async with served() as port:

            async def churn() -> bytes:
                one = socket.create_connection(("127.0.0.1", port))
                one.send(first) if first else None
                await asyncio.sleep(0.02)
                if reset:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                one.close()
                await asyncio.sleep(0.02)
                return b""

            return (await garbage(churn))[1]

    found = uvloop.run(run())
    assert found.total() <= MOST_OBJECTS, found.most_common(12)
