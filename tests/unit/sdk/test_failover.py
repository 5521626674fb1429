"""Several servers: who is asked, who is not asked again, and what is never sent twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from packetboat.errors import ConnectionFailed, Unavailable, UnknownOutcome
from packetboat.options import Options
from packetboat.transport import Request, Response, failover
from packetboat.transport.failover import MAX_REST_S, REST_S, AsyncFailover, Endpoints, Failover

from tests.unit.sdk.raw_server import (
    AsyncCaller,
    Caller,
    Peer,
    RawServer,
    SyncCaller,
    answer,
    answering,
    post,
)
from tests.unit.sdk.sdk_support import AsyncScript, Script, ok, problem
from tests.unit.sdk.test_connections import refusing

REQUEST = Request("POST", "/topics/orders/messages", {}, b"x")
GONE = ConnectionFailed("refused")
BUSY = problem(503, "busy")


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        monkeypatch.setattr(failover, "monotonic", lambda: self.now_s)


class Servers:
    """Scripts behind a failover, blocking or asyncio's."""

    def __init__(self, kind: str, *answers: list[Any]) -> None:
        self.scripts = [Script(*each) for each in answers]
        if kind == "sync":
            sync = Failover(self.scripts)
            self.send: Callable[[Request], Response] = sync.send
            self.stream = lambda: self._sync_stream(sync)
        else:
            several = AsyncFailover([_async(script) for script in self.scripts])
            self.send = lambda request: asyncio.run(several.send(request))
            self.stream = lambda: asyncio.run(self._async_stream(several))

    @property
    def asked(self) -> list[int]:
        return [len(script.requests) for script in self.scripts]

    def _sync_stream(self, transport: Failover) -> int:
        with transport.stream(REQUEST) as response:
            return response.status

    async def _async_stream(self, transport: AsyncFailover) -> int:
        async with transport.stream(REQUEST) as response:
            return response.status


def _async(script: Script) -> AsyncScript:
    made = AsyncScript()
    made.script = script
    return made


@pytest.fixture(params=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.mark.parametrize("failure", [GONE, BUSY], ids=["not-reached", "503"])
def test_the_next_is_asked_at_once_and_stayed_with(kind: str, failure: Any) -> None:
    servers = Servers(kind, [failure], [ok({}), ok({}), ok({})])
    for _ in range(3):
        assert servers.send(REQUEST).status == 200
    assert servers.asked == [1, 3]


def test_what_may_have_taken_effect_is_not_sent_to_another(kind: str) -> None:
    servers = Servers(kind, [UnknownOutcome("cut")], [ok({})])
    with pytest.raises(UnknownOutcome):
        servers.send(REQUEST)
    assert servers.asked == [1, 0]
    assert servers.send(REQUEST).status == 200  # the caller's next request goes there
    assert servers.asked == [1, 1]


@pytest.mark.parametrize("status", [200, 400, 401, 404, 409, 429, 500, 504])
def test_other_answers_are_the_callers(kind: str, status: int) -> None:
    servers = Servers(kind, [problem(status, "x")], [])
    assert servers.send(REQUEST).status == status


def test_when_all_refuse_the_last_answer_is_given(kind: str) -> None:
    servers = Servers(kind, [GONE], [BUSY])
    assert servers.send(REQUEST).status == 503
    servers = Servers(kind, [BUSY], [GONE])
    with pytest.raises(ConnectionFailed):
        servers.send(REQUEST)


def test_who_failed_rests_and_comes_back(kind: str, clock: Clock) -> None:
    servers = Servers(kind, [GONE, ok({})], [ok({}), GONE])
    servers.send(REQUEST)
    clock.now_s += REST_S
    servers.send(REQUEST)  # the second fails now, and the first has rested
    assert servers.asked == [2, 2]


def test_while_all_rest_one_is_asked(kind: str, clock: Clock) -> None:
    """Trying each server would take the time of all, because they do not answer."""
    servers = Servers(kind, [GONE, GONE], [GONE, GONE])
    for _ in range(2):
        with pytest.raises(ConnectionFailed):
            servers.send(REQUEST)
    assert sum(servers.asked) == 3


def test_the_servers_share_the_time_of_a_try(clock: Clock) -> None:
    class Slow(Script):
        def send(self, request: Request) -> Response:
            clock.now_s += 20
            raise GONE

    second = Script(ok({}))
    Failover([Slow(), second]).send(REQUEST._replace(timeout_s=30))
    assert second.requests[0].timeout_s == pytest.approx(10)


def test_streams_are_begun_at_the_next(kind: str) -> None:
    servers = Servers(kind, [GONE], [BUSY], [ok({})])
    assert servers.stream() == 200
    assert servers.asked == [1, 1, 1]


def test_the_rest_doubles_to_a_bound() -> None:
    ends = Endpoints(1)
    rests = []
    now_s = 0.0
    for _ in range(10):
        ends.failed(0, now_s)
        rest_s = ends._rests_until_s[0] - now_s
        rests.append(rest_s)
        now_s += rest_s
    assert REST_S / 2 <= rests[0] <= REST_S
    assert REST_S <= rests[1] <= REST_S * 2
    assert MAX_REST_S / 2 <= rests[-1] <= MAX_REST_S


def test_many_who_find_out_at_once_lengthen_the_rest_once() -> None:
    ends = Endpoints(2)
    for _ in range(100):
        ends.failed(0, 50.0)
    assert ends._rests_until_s[0] <= 50.0 + REST_S
    assert ends.order(50.0) == [1]
    assert ends.order(50.0 + REST_S) == [0, 1]


def test_an_answer_ends_the_rest() -> None:
    ends = Endpoints(3)
    ends.failed(1, 0.0)
    ends.answered(1)
    assert ends.order(0.0) == [1, 2, 0]


@pytest.fixture(params=["sync", "async"])
def caller_of(request: pytest.FixtureRequest) -> Iterator[Callable[..., Caller]]:
    made: list[Caller] = []

    def open_one(*urls: str, **options: Any) -> Caller:
        kind = SyncCaller if request.param == "sync" else AsyncCaller
        made.append(kind(Options(urls=urls, **options)))
        return made[-1]

    yield open_one
    for each in made:
        each.end()


def test_over_sockets(caller_of: Callable[..., Caller]) -> None:
    async def busy(peer: Peer) -> None:
        while await peer.request():
            await peer.write(answer(503))

    with RawServer(busy) as first, RawServer(answering) as second:
        caller = caller_of(refusing(), first.url, second.url)
        for _ in range(3):
            assert caller.send(post()) == b"{}"
        assert (first.connections, second.connections) == (1, 1)


def test_a_call_waits_for_a_server_that_comes_up(caller_of: Callable[..., Caller]) -> None:
    seen = 0

    async def busy_twice(peer: Peer) -> None:
        nonlocal seen
        while await peer.request():
            seen += 1
            await peer.write(answer(503 if seen < 3 else 200))

    with RawServer(busy_twice) as server:
        assert caller_of(refusing(), server.url).send(post()) == b"{}"
    assert seen == 3


def test_a_call_gives_up_when_none_comes_up(caller_of: Callable[..., Caller]) -> None:
    with pytest.raises((ConnectionFailed, Unavailable)):
        caller_of(refusing(), refusing(), retry_for_s=0.2).send(post())
