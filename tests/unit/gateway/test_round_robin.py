from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from edge.asgi import ClientGone, Receive, Scope, Send, respond
from gateway.http import connection
from gateway.http.round_robin import AT_ONCE, HANDLERS_AT_ONCE, RoundRobin
from gateway.http.server import HttpServer
from gateway.server import hypercorn_config
from tests.unit.edge.test_slices import Passes
from tests.unit.gateway.test_over_hypercorn import eventually


class Connection:
    """Notes whose turn it was in which pass of the loop."""

    def __init__(self, turns: RoundRobin, name: bytes, seen: list[bytes]) -> None:
        self._turns, self._name, self._seen = turns, name, seen

    def arrive(self) -> None:
        if self._turns.admits(self.take_turn, self._name):
            self._seen.append(self._name)

    def take_turn(self) -> None:
        self._seen.append(self._name)


async def test_so_many_of_a_pass_are_looked_at_and_the_others_in_their_order() -> None:
    seen: list[bytes] = []
    turns = RoundRobin(asyncio.get_running_loop())
    names = [b"%d" % number for number in range(3 * AT_ONCE)]
    for name in names:
        if turns.admits(Connection(turns, name, seen).take_turn, b"one tenant"):
            seen.append(name)
    assert seen == names[:AT_ONCE]
    await asyncio.sleep(0)
    assert seen == names[: 2 * AT_ONCE]
    await asyncio.sleep(0)
    assert seen == names
    await asyncio.sleep(0)
    Connection(turns, b"later", seen).arrive()
    assert seen[-1] == b"later"


async def test_a_tenant_with_few_does_not_wait_for_one_with_many() -> None:
    seen: list[bytes] = []
    turns = RoundRobin(asyncio.get_running_loop())
    for _ in range(50 * AT_ONCE):
        Connection(turns, b"flood", seen).arrive()
    Connection(turns, b"calm", seen).arrive()
    await asyncio.sleep(0)
    assert seen.count(b"calm") == 1
    assert len(seen) == 2 * AT_ONCE
    for _ in range(60):
        await asyncio.sleep(0)
    assert len(seen) == 50 * AT_ONCE + 1
    await asyncio.sleep(0)
    assert not turns._scheduled


async def test_more_tenants_than_a_pass_takes_have_turns_too() -> None:
    seen: list[bytes] = []
    turns = RoundRobin(asyncio.get_running_loop())
    tenants = [b"%d" % number for number in range(2 * AT_ONCE)]
    for _ in range(10):
        for tenant in tenants:
            Connection(turns, tenant, seen).arrive()
    Connection(turns, b"calm", seen).arrive()
    for _ in range(3):
        await asyncio.sleep(0)
    assert b"calm" in seen


async def test_a_turn_that_fails_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[bytes] = []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_exception_handler", lambda _: None)
    turns = RoundRobin(loop)

    class Failing(Connection):
        def take_turn(self) -> None:
            raise RuntimeError("a defect")

    for _ in range(AT_ONCE):
        Connection(turns, b"one", seen).arrive()
    Failing(turns, b"one", seen).arrive()
    for _ in range(3):
        Connection(turns, b"one", seen).arrive()
    for _ in range(3):
        await asyncio.sleep(0)
    assert len(seen) == AT_ONCE + 3


class Handled(Connection):
    """A connection whose request gets to a handler."""

    def arrive(self) -> None:
        if self._turns.admits(self.take_turn, self._name):
            self.take_turn()

    def take_turn(self) -> None:
        super().take_turn()
        self._turns.handled()


async def test_few_handlers_run_of_the_requests_that_a_pass_looks_at() -> None:
    """Sixteen took 4 ms, and a publish waited for six such passes beside 400 pulls."""
    seen: list[bytes] = []
    turns = RoundRobin(asyncio.get_running_loop())
    for number in range(3 * HANDLERS_AT_ONCE):
        Handled(turns, b"%d" % number, seen).arrive()
    assert len(seen) == HANDLERS_AT_ONCE
    Connection(turns, b"refused at once", seen).arrive()
    for passed in (2, 3):
        await asyncio.sleep(0)
        assert len(seen) >= passed * HANDLERS_AT_ONCE
        assert sum(name.isdigit() for name in seen) == passed * HANDLERS_AT_ONCE


MANY = 5 * HANDLERS_AT_ONCE
REQUEST = b"GET /x HTTP/1.1\r\nHost: test\r\n\r\n"


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    await respond(send, 200, b"")


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    """Yield a server with MANY connections, whose clients say nothing."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    served = HttpServer(answer, hypercorn_config())
    await served.start(listener)
    clients = [await asyncio.open_connection(*listener.getsockname()) for _ in range(MANY)]
    await eventually(lambda: len(served.connections) == MANY)
    yield served
    for _, writer in clients:
        writer.close()
    await served.close(0.5)


def connections(server: HttpServer) -> list[connection.Connection]:
    return [each for each in server.connections if isinstance(each, connection.Connection)]


async def test_requests_that_come_at_once_get_to_few_handlers_in_a_pass(
    server: HttpServer,
) -> None:
    """A connection has sent two, and the second follows the answer to the first."""
    passes, begun = Passes(), Counter[int]()

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        begun[passes.number] += 1
        await answer(scope, receive, send)

    server.app = noting
    for each in connections(server):
        each.data_received(2 * REQUEST)
    await eventually(lambda: begun.total() == 2 * MANY)
    passes.end()
    assert max(begun.values()) <= HANDLERS_AT_ONCE


async def test_clients_that_leave_at_once_end_few_handlers_in_a_pass(
    server: HttpServer,
) -> None:
    """One pass had the ends of all pulls when the clients of 400 left."""
    passes, ended, asked = Passes(), Counter[int](), 0

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal asked
        await receive()
        asked += 1
        await receive()
        ended[passes.number] += 1
        with pytest.raises(ClientGone):
            await send({"type": "http.response.start", "status": 200, "headers": []})

    server.app = noting
    many = connections(server)
    for each in many:
        each.data_received(REQUEST)
    await eventually(lambda: asked == MANY)
    for each in many:
        each.abort()
    await eventually(lambda: ended.total() == MANY)
    passes.end()
    assert max(ended.values()) <= HANDLERS_AT_ONCE
    assert not server.connections
