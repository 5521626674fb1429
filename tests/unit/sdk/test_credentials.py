"""Test the credentials that a client sends, for both kinds of client."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from packetboat.aio.sender import AsyncSender
from packetboat.calls import Call, StreamCall
from packetboat.credentials import (
    ClientCredentials,
    Credentials,
    StaticToken,
    TokenFile,
    async_tokens,
    at_hand,
    authorized,
    sync_tokens,
)
from packetboat.errors import (
    ClientClosed,
    ConnectionFailed,
    NotAuthorized,
    NotDone,
    Overloaded,
    PacketboatError,
    Unavailable,
    UnknownOutcome,
)
from packetboat.options import Options
from packetboat.transport import Request, Response, open_async_transport

from tests.unit.sdk.raw_server import (
    PATIENCE_S,
    AsyncCaller,
    Caller,
    Peer,
    RawServer,
    SyncCaller,
    answer,
    post,
)
from tests.unit.sdk.sdk_support import AsyncScript, Script, ok, problem

CLIENT = ClientCredentials("cl_1", "s:e/c ret")
REFUSED = problem(401, "unauthenticated")


class Server(Script):
    """Issues t1, t2, …; answers calls with the token that they came with."""

    def __init__(self, expires_in: float = 3600) -> None:
        super().__init__()
        self.expires_in = expires_in
        self.issued = 0
        self.revoked: set[str] = set()
        self.outages = 0
        self.endpoint: Any = None
        """The answer of the token endpoint instead of a token; an exception is raised."""

    def send(self, request: Request) -> Response:
        self.requests.append(request)
        if request.path == "/oauth/token":
            return self._issue()
        token = request.headers["Authorization"].removeprefix("Bearer ")
        return REFUSED if token in self.revoked else Response(200, {}, token.encode())

    def _issue(self) -> Response:
        if self.outages:
            self.outages -= 1
            raise ConnectionFailed("refused")
        if isinstance(self.endpoint, Exception):
            raise self.endpoint
        if self.endpoint is not None:
            return self.endpoint  # type: ignore[no-any-return]
        self.issued += 1
        return ok({"access_token": f"t{self.issued}", "expires_in": self.expires_in})

    @property
    def paths(self) -> list[str]:
        return [request.path.rpartition("/")[2] for request in self.requests]


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        for module in (async_tokens, at_hand, authorized, sync_tokens):
            monkeypatch.setattr(module, "monotonic", lambda: self.now_s)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


Opened = Callable[..., Caller]


@pytest.fixture(params=["sync", "async"])
def opened(request: pytest.FixtureRequest) -> Iterator[Opened]:
    with ExitStack() as stack:

        def open_one(server: Script, credentials: Credentials = CLIENT, **options: Any) -> Caller:
            told = Options(credentials=credentials, **({"retry_for_s": 0} | options))
            caller: Caller
            if request.param == "sync":
                caller = SyncCaller(told, server)
            else:
                script = AsyncScript()
                script.script = server
                caller = AsyncCaller(told, script)
            stack.callback(caller.end)
            return caller

        yield open_one


def test_a_static_token_goes_with_every_call(opened: Opened) -> None:
    server = Server()
    caller = opened(server, StaticToken("pbk_1"))
    assert (caller.send(post()), caller.send(post())) == (b"pbk_1", b"pbk_1")


def test_a_static_token_that_is_refused_stays_refused(opened: Opened) -> None:
    server = Server()
    server.revoked.add("pbk_1")
    with pytest.raises(NotAuthorized):
        opened(server, StaticToken("pbk_1")).send(post())
    assert len(server.requests) == 1


def test_a_token_is_asked_for_once_and_used_for_all(opened: Opened) -> None:
    server = Server()
    caller = opened(server)
    assert [caller.send(post()) for _ in range(3)] == [b"t1"] * 3
    assert server.paths == ["token", "messages", "messages", "messages"]


def test_how_a_token_is_asked_for(opened: Opened) -> None:
    server = Server()
    credentials = ClientCredentials("cl_1", "s:e/c ret", scope="topics:*", audience="boat")
    opened(server, credentials).send(post())
    asked = server.requests[0]
    scheme, _, pair = asked.headers["Authorization"].partition(" ")
    assert (scheme, base64.b64decode(pair)) == ("Basic", b"cl_1:s%3Ae%2Fc%20ret")
    assert parse_qs(asked.body.decode()) == {
        "grant_type": ["client_credentials"],
        "scope": ["topics:*"],
        "audience": ["boat"],
    }


def test_another_is_asked_for_before_it_is_over(opened: Opened, clock: Clock) -> None:
    server = Server(expires_in=100)
    caller = opened(server)
    caller.send(post())
    clock.now_s += 60
    assert caller.send(post()) == b"t1"
    assert server.issued == 1
    clock.now_s += 30
    caller.send(post())  # still good, and another is asked for
    assert caller.send(post()) == b"t2"
    assert server.issued == 2


def test_one_that_is_over_is_not_sent(opened: Opened, clock: Clock) -> None:
    server = Server(expires_in=100)
    caller = opened(server)
    caller.send(post())
    clock.now_s += 96
    assert caller.send(post()) == b"t2"


def test_one_that_holds_is_used_while_there_is_no_other(opened: Opened, clock: Clock) -> None:
    """And the endpoint is not asked by every call."""
    server = Server(expires_in=100)
    caller = opened(server)
    caller.send(post())
    server.endpoint = problem(503, "down")
    clock.now_s += 90
    assert [caller.send(post()) for _ in range(10)] == [b"t1"] * 10
    assert server.paths.count("token") == 2
    server.endpoint = None
    clock.now_s += 5
    caller.send(post())
    assert caller.send(post()) == b"t2"


def test_a_revoked_one_is_replaced_and_the_call_sent_again(opened: Opened) -> None:
    server = Server()
    caller = opened(server)
    caller.send(post())
    server.revoked.add("t1")
    assert caller.send(post()) == b"t2"
    assert server.paths == ["token", "messages", "messages", "token", "messages"]


def test_a_request_that_says_who_asks_needs_no_token(opened: Opened) -> None:
    server = Server()
    server.revoked.add("theirs")
    request = Request("POST", "/oauth/introspect", {"Authorization": "Bearer theirs"})
    with pytest.raises(NotAuthorized):
        opened(server).send(Call(request, bytes))
    assert server.requests == [request._replace(timeout_s=server.requests[0].timeout_s)]


def test_a_stream_is_begun_again_with_another(opened: Opened) -> None:
    server = Server()
    server.revoked.add("t1")
    call = StreamCall(Request("GET", "/subscriptions/s/messages:stream"))
    assert opened(server).stream(call) == [b"t2"]


def test_the_time_for_a_token_is_the_calls(opened: Opened, clock: Clock) -> None:
    class Slow(Server):
        def _issue(self) -> Response:
            clock.now_s += 20
            return super()._issue()

    server = Slow()
    opened(server).send(post())
    assert server.requests[-1].timeout_s == pytest.approx(10)


def test_it_is_replaced_once(opened: Opened) -> None:
    server = Server()
    server.revoked |= {f"t{number}" for number in range(10)}
    with pytest.raises(NotAuthorized):
        opened(server).send(post())
    assert server.paths == ["token", "messages", "token", "messages"]


ENDPOINT: Mapping[str, tuple[Any, type[NotDone]]] = {
    "wrong-secret": (ok({"error": "invalid_client"}, 401), NotAuthorized),
    "wrong-scope": (ok({"error": "invalid_scope"}, 400), NotAuthorized),
    "not-there": (problem(404, "not-found"), NotAuthorized),
    "slow-down": (Response(429, {"retry-after": "2"}, b""), Overloaded),
    "down": (problem(503, "down"), Unavailable),
    "broken": (Response(500, {}, b"oops"), Unavailable),
    "nonsense": (Response(200, {}, b"oops"), Unavailable),
    "not-reached": (ConnectionFailed("refused"), ConnectionFailed),
    "cut": (UnknownOutcome("cut"), ConnectionFailed),
}


@pytest.mark.parametrize("case", ENDPOINT)
def test_without_a_token_nothing_is_done(opened: Opened, case: str) -> None:
    server = Server()
    server.endpoint, kind = ENDPOINT[case]
    with pytest.raises(PacketboatError, match=r"no access token|refused|endpoint") as caught:
        opened(server).send(post())
    assert type(caught.value) is kind
    assert server.paths == ["token"]


def test_an_outage_of_the_endpoint_is_waited_for(opened: Opened) -> None:
    server = Server()
    server.outages = 2
    assert opened(server, retry_for_s=PATIENCE_S).send(post()) == b"t1"


def test_secrets_are_not_printed() -> None:
    shown = repr([StaticToken("hush"), Options(credentials=ClientCredentials("id", "hush"))])
    assert "hush" not in shown
    assert "id" in shown


def test_a_file_is_read_again_when_it_has_changed(
    opened: Opened, clock: Clock, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    caller = opened(Server(), TokenFile(str(file)))
    assert caller.send(post()) == b"one"
    (tmp_path / "next").write_text("another")
    (tmp_path / "next").replace(file)
    clock.now_s += 2
    assert caller.send(post()) == b"another"
    file.unlink()
    clock.now_s += 2
    assert caller.send(post()) == b"another"


def test_a_refused_one_is_read_again_at_once(opened: Opened, clock: Clock, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    server = Server()
    caller = opened(server, TokenFile(str(file)))
    caller.send(post())
    server.revoked.add("one")
    file.write_text("another")
    assert caller.send(post()) == b"another"


@pytest.mark.parametrize("content", [None, "", " \n"], ids=["none", "empty", "blank"])
def test_a_file_without_a_token_is_not_authorized(
    opened: Opened, tmp_path: Path, content: str | None
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    server = Server()
    with pytest.raises(NotAuthorized, match=r"no token in .*token"):
        opened(server, TokenFile(str(file))).send(post())
    assert server.requests == []


def test_threads_share_one_request_for_a_token() -> None:
    together = threading.Barrier(8)
    asked = threading.Event()

    class Slow(Server):
        def _issue(self) -> Response:
            assert asked.wait(PATIENCE_S)
            return super()._issue()

    def call(number: int) -> bytes:
        together.wait(PATIENCE_S)
        if number == 0:
            asked.set()
        return caller.send(post())

    server = Slow()
    caller = SyncCaller(Options(credentials=CLIENT), server)
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(call, range(8))) == {b"t1"}
    assert server.issued == 1
    caller.end()


class SlowServer(AsyncScript):
    """A server whose token endpoint does not answer before `let` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.script = self.server = Server()
        self.asked = asyncio.Event()
        self.let = asyncio.Event()

    async def send(self, request: Request) -> Response:
        if request.path == "/oauth/token":
            self.asked.set()
            await self.let.wait()
        return await super().send(request)


def sender_of(server: SlowServer) -> AsyncSender:
    options = Options(credentials=CLIENT, retry_for_s=0)
    return AsyncSender(options, open_async_transport(options, server))


async def test_tasks_share_one_request_for_a_token() -> None:
    """And one that is cancelled takes it from nobody."""
    server = SlowServer()
    sender = sender_of(server)
    first = asyncio.create_task(sender.send(post()))
    await server.asked.wait()
    others = [asyncio.create_task(sender.send(post())) for _ in range(8)]
    await asyncio.sleep(0)
    first.cancel()
    server.let.set()
    assert await asyncio.gather(*others) == [b"t1"] * 8
    assert first.cancelled()
    assert server.server.issued == 1
    await sender.close()


async def test_who_waits_for_a_token_of_a_closed_client_is_told() -> None:
    server = SlowServer()
    sender = sender_of(server)
    call = asyncio.create_task(sender.send(post()))
    await server.asked.wait()
    await sender.close()
    with pytest.raises(ClientClosed):
        await call


async def test_a_token_that_does_not_come_in_time_is_not_done() -> None:
    server = SlowServer()
    sender = sender_of(server)
    with pytest.raises(ConnectionFailed, match="in time"):
        await sender.send(post(), timeout_s=0.05)
    assert server.server.requests == []
    await sender.close()


def test_a_child_asks_for_itself_when_its_parent_was_asking() -> None:
    """The thread that would answer it is not there."""
    asked, let = threading.Event(), threading.Event()

    class Slow(Server):
        def _issue(self) -> Response:
            asked.set()
            assert let.wait(PATIENCE_S)
            return super()._issue()

    tokens = sync_tokens.IssuedTokens(CLIENT, Slow())
    thread = threading.Thread(target=tokens.current, args=(PATIENCE_S,))
    thread.start()
    assert asked.wait(PATIENCE_S)
    let.set()
    tokens._forked()
    assert tokens.current(PATIENCE_S).startswith("t")
    thread.join(PATIENCE_S)


def test_another_issuers_endpoint(opened: Opened) -> None:
    seen: list[str] = []

    async def issue(peer: Peer) -> None:
        while await peer.request():
            seen.append(peer.head.split("\r\n")[0])
            await peer.write(answer(200, b'{"access_token": "theirs"}'))

    with RawServer(issue) as issuer:
        credentials = ClientCredentials("id", "secret", token_url=f"{issuer.url}/realms/a?b=c")
        assert opened(Server(), credentials).send(post()) == b"theirs"
    assert seen == ["POST /realms/a?b=c HTTP/1.1"]
