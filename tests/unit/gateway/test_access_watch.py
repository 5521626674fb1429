"""Test that a waiting request stays open for as long as its caller has access."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from auth.errors import TenantSuspended, TokenRefused, VerifierUnavailable
from auth.permissions import Permission
from auth.principal import Grant, Principal, everything
from auth.verifier import CachingVerifier
from edge.asgi import Receive, Route, Scope, Send, respond
from edge.departure import DEPARTURE, departure, disconnected, ended_by, unwatch
from edge.problem import Problem
from gateway import access_watch
from gateway.access_watch import AccessWatch
from gateway.app import create_app
from gateway.http.router import Endpoint
from gateway.middleware.auth import PRINCIPAL
from gateway.middleware.errors import unauthenticated
from gateway.readiness import Readiness
from harness.made_up_routes import made_up
from metadata.types import Change, ChangeKind

PULL = "/subscriptions/{name}/messages"
ONE, OTHER = b"1" * 16, b"2" * 16


def principal(tenant_id: bytes = ONE, **members: Any) -> Principal:
    return Principal(tenant_id, "key:k", members.pop("grants", everything()), **members)


class Tokens:
    """A verifier that says what it is told to, of each token."""

    def __init__(self) -> None:
        self.answers: dict[bytes, Principal | Exception] = {
            b"one": principal(),
            b"other": principal(OTHER),
        }
        self.asked: list[bytes] = []
        self.meanwhile: Sequence[Change] = ()
        """The changes that the change feed reports while the verifier looks."""
        self.now_s = 1000.0
        self.cache = CachingVerifier(self, clock=self.wall, wall=self.wall)

    def wall(self) -> float:
        return self.now_s

    async def verify(self, token: bytes) -> Principal:
        self.asked.append(token)
        answer = self.answers[token]
        if self.meanwhile:
            told, self.meanwhile = self.meanwhile, ()
            await self.cache.on_changes(told)
        if isinstance(answer, Exception):
            raise answer
        return answer


def changed(kind: ChangeKind = ChangeKind.KEY, tenant_id: bytes = ONE) -> list[Change]:
    return [Change(1, kind, tenant_id, b"u" * 16, "")]


class Site:
    """One process: `watch` looks when it is told to, or when `running`.

    `offers` says that its server offers the futures of departures.
    """

    def __init__(self, *, offers: bool) -> None:
        self.offers = offers
        self.tokens = Tokens()
        self.watch = AccessWatch(self.tokens.cache, wall=self.tokens.wall)
        self.messages = asyncio.Event()
        self.tasks: list[asyncio.Task[Any]] = []

    async def pull(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wait as every long poll does."""
        await receive()
        gone = departure(scope, receive)
        there = asyncio.create_task(self.messages.wait())
        try:
            await asyncio.wait((gone, there), return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                raise ended_by(gone)
            await respond(send, 200, b"message")
        finally:
            await unwatch(gone)
            there.cancel()

    async def deaf(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Watches nothing, once it has begun to wait."""
        await receive()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await receive()
        await self.messages.wait()

    async def open(
        self, token: bytes = b"one", route: Route | None = None, **params: str
    ) -> asyncio.Task[list[Any]]:
        """Open a request that waits by now; the result of the task is the list of messages
        that it sent.
        """
        endpoint = Endpoint(
            route or made_up("GET", PULL, self.pull, "consume", "subscription:name")
        )
        self.watch.guard([endpoint])
        bodies = [{"type": "http.request", "body": b"", "more_body": False}]
        sent: list[Any] = []

        async def receive() -> Any:
            if not bodies:
                await asyncio.Event().wait()
            return bodies.pop()

        async def send(message: Any) -> None:
            sent.append(message)

        async def run() -> list[Any]:
            scope = {
                PRINCIPAL: await self.tokens.cache.verify(token),
                "headers": [(b"authorization", b"Bearer " + token)],
                "path_params": params or {"name": "reader"},
            }
            if self.offers:
                scope[DEPARTURE] = asyncio.get_running_loop().create_future
            await endpoint.handler(scope, receive, send)
            return sent

        self.tasks.append(asyncio.create_task(run()))
        await asyncio.sleep(0.01)
        return self.tasks[-1]

    async def tell(self, changes: Sequence[Change]) -> None:
        await self.tokens.cache.on_changes(changes)
        await self.watch.look()
        await asyncio.sleep(0.01)


@pytest.fixture(params=[False, True], ids=["a task", "offered"])
async def site(request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    site = Site(offers=request.param)
    yield site
    for task in site.tasks:
        task.cancel()
    await asyncio.gather(*site.tasks, return_exceptions=True)


def refusal_of(task: asyncio.Task[Any]) -> tuple[int, str]:
    assert task.done(), "it goes on"
    error = task.exception()
    assert isinstance(error, Problem)
    return error.status, error.slug


@pytest.mark.parametrize(
    ("answer", "refusal"),
    [
        (TokenRefused(), (401, "unauthenticated")),
        (TenantSuspended(), (403, "tenant-suspended")),
        (principal(grants=frozenset()), (403, "forbidden")),
        (
            principal(grants=frozenset({Grant(Permission.CONSUME, "subscription", "else")})),
            (403, "forbidden"),
        ),
    ],
)
async def test_who_may_no_longer_is_answered_so_and_nobody_else(
    site: Site, answer: Any, refusal: tuple[int, str]
) -> None:
    ended, goes_on = await site.open(), await site.open(b"other")
    site.tokens.answers[b"one"] = answer
    await site.tell(changed())
    assert refusal_of(ended) == refusal
    assert site.tokens.asked == [b"one", b"other", b"one"], "the other was asked for again"
    site.messages.set()
    assert (await goes_on)[1]["body"] == b"message"


async def test_what_changed_and_still_permits_it_ends_nothing(site: Site) -> None:
    waits = await site.open()
    site.tokens.answers[b"one"] = principal(
        grants=frozenset({Grant(Permission.CONSUME, "subscription", "read*")})
    )
    await site.tell(changed(ChangeKind.POLICY))
    assert not waits.done()
    site.messages.set()
    await waits


async def test_a_change_between_the_judgement_and_the_wait_counts(site: Site) -> None:
    site.tokens.meanwhile = changed()
    waits = await site.open()
    site.tokens.answers[b"one"] = TokenRefused()
    await site.watch.look()
    await asyncio.sleep(0.01)
    assert refusal_of(waits) == (401, "unauthenticated")


async def test_a_change_during_the_judgement_counts(site: Site) -> None:
    waits = await site.open()
    site.tokens.meanwhile = changed()
    await site.tell(changed())
    assert not waits.done()
    site.tokens.answers[b"one"] = TokenRefused()
    await site.watch.look()
    await asyncio.sleep(0.01)
    assert refusal_of(waits) == (401, "unauthenticated")


async def test_a_token_that_cannot_be_checked_ends_nothing_until_it_can(site: Site) -> None:
    waits = await site.open()
    site.tokens.answers[b"one"] = VerifierUnavailable()
    await site.tell(changed())
    await site.watch.look()
    assert not waits.done()
    site.tokens.answers[b"one"] = TokenRefused()
    await site.watch.look()
    await asyncio.sleep(0.01)
    assert refusal_of(waits) == (401, "unauthenticated")


async def test_an_expired_token_holds_for_the_leeway_and_no_longer(site: Site) -> None:
    site.tokens.answers[b"one"] = principal(expires_at=1100.0)
    waits = await site.open()
    for now_s, asked in [(1059.0, 1), (1100.0, 2), (1101.0, 2), (1105.0, 3)]:
        site.tokens.now_s = now_s
        await site.watch.look()
        assert (len(site.tokens.asked), waits.done()) == (asked, False), now_s
    site.tokens.answers[b"one"] = TokenRefused()
    site.tokens.now_s = 1110.0
    await site.watch.look()
    await asyncio.sleep(0.01)
    assert refusal_of(waits) == (401, "unauthenticated")


async def test_a_handler_that_does_not_end_is_cut(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = await site.open(route=made_up("GET", PULL, site.deaf, "consume", "subscription:name"))
    site.tokens.answers[b"one"] = TokenRefused()
    await site.tell(changed())
    assert not waits.done()
    monkeypatch.setattr(access_watch, "GRACE_S", -1.0)
    await site.watch.look()
    await asyncio.sleep(0.01)
    assert refusal_of(waits) == (401, "unauthenticated")


async def test_names_that_a_handler_chose_are_not_shown_by_other_grants(site: Site) -> None:
    several = made_up("GET", "/backlog:stream", site.pull, "read", "subscription:?")
    waits = await site.open(route=several)
    await site.tell(changed(ChangeKind.POLICY))
    assert not waits.done(), "the same grants"
    grants = frozenset({Grant(Permission.READ, "subscription", "a*")})
    site.tokens.answers[b"one"] = principal(grants=grants)
    await site.tell(changed(ChangeKind.POLICY))
    assert refusal_of(waits) == (503, "auth-unavailable")


async def test_who_is_refused_and_then_cancelled_by_others_is_cancelled(site: Site) -> None:
    waits = await site.open(route=made_up("GET", PULL, site.deaf, "consume", "subscription:name"))
    site.tokens.answers[b"one"] = TokenRefused()
    await site.tell(changed())
    waits.cancel()
    await asyncio.gather(waits, return_exceptions=True)
    assert waits.cancelled()


async def test_who_is_refused_in_the_moment_of_a_cancel_is_cancelled(site: Site) -> None:
    async def waits_itself(scope: Scope, receive: Receive, send: Send) -> None:
        await disconnected(receive)

    waits = await site.open(
        route=made_up("GET", PULL, waits_itself, "consume", "subscription:name")
    )
    (request,) = site.watch._open
    request.refuse(unauthenticated())
    waits.cancel()
    await asyncio.gather(waits, return_exceptions=True)
    assert waits.cancelled()


async def test_what_has_ended_is_not_kept(site: Site) -> None:
    waits = await site.open()
    site.messages.set()
    await waits
    await site.tell(changed())
    assert site.tokens.asked == [b"one"]


def test_what_does_not_wait_is_left_alone(site: Site) -> None:
    publish = made_up("POST", "/topics/{topic}/messages", site.pull, "publish", "topic:topic")
    endpoint = Endpoint(publish)
    site.watch.guard([endpoint])
    assert endpoint.handler is publish.handler


async def test_the_dispatcher_answers_a_long_poll_with_why_it_ended(site: Site) -> None:
    """Whole: the change is heard of, and within a moment there is an answer."""
    route = made_up("GET", PULL, site.pull, "consume", "subscription:name")
    app = create_app([route], site.tokens.cache, Readiness())
    sweeping = asyncio.create_task(app.sweep())
    bodies = [{"type": "http.request", "body": b"", "more_body": False}]
    sent: list[Any] = []

    async def receive() -> Any:
        if not bodies:
            await asyncio.Event().wait()
        return bodies.pop()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "query_string": b"",
        "method": "GET",
        "path": "/subscriptions/reader/messages",
        "headers": [(b"authorization", b"Bearer one")],
    }
    request = asyncio.create_task(app(scope, receive, send))
    await asyncio.sleep(0.01)
    site.tokens.answers[b"one"] = TokenRefused()
    await site.tokens.cache.on_changes(changed())
    async with asyncio.timeout(0.5):
        await request
    assert sent[0]["status"] == 401
    sweeping.cancel()
