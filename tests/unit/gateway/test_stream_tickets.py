"""Tickets of streams: what they open, for how long, and what ends a stream that one has opened."""

from __future__ import annotations

from typing import Any

import httpx2

from auth.errors import TokenRefused
from auth.permissions import Permission
from auth.principal import Grant, Principal
from edge.asgi import Receive, Scope, Send, header, path_param, respond
from edge.sealing import Sealer
from gateway.app import create_app
from gateway.readiness import Readiness
from gateway.stream_tickets import STREAM, TICKET_SECONDS, StreamTickets
from harness.made_up_routes import made_up
from metadata.errors import NotFound

TOKEN = "secret-token"
AUTH = {"authorization": f"Bearer {TOKEN}"}


class OneToken:
    """May consume from subscriptions of `o*`, until it is revoked."""

    def __init__(self) -> None:
        self.revoked = False

    async def verify(self, token: bytes) -> Principal:
        if self.revoked or token != TOKEN.encode():
            raise TokenRefused
        grant = Grant(Permission.CONSUME, "subscription", "o*")
        return Principal(b"t" * 16, "page", frozenset((grant,)))


class Site:
    """A server with a stream that says at once whose it is."""

    def __init__(self, *, on: bool = True, key: bytes = b"k" * 32) -> None:
        self.now_s = 1000.0
        sealer = Sealer({"one": key}) if on else None
        tickets = StreamTickets(sealer, self._find, lambda: self.now_s)
        self.tokens = OneToken()
        self.seen: list[bytes | None] = []
        routes = [
            *tickets.routes(),
            made_up("GET", STREAM, self._stream, "consume", "subscription:name", head=False),
            made_up("GET", "/subscriptions/{name}/messages", self._stream, "consume",
                  "subscription:name", head=False),
        ]  # fmt: skip
        app = create_app(routes, self.tokens, Readiness(), tickets=tickets)
        transport = httpx2.ASGITransport(app=app)
        self.http = httpx2.AsyncClient(transport=transport, base_url="http://test")

    async def _find(self, scope: Scope) -> None:
        if path_param(scope, "name") not in ("orders", "offers"):
            raise NotFound("subscription", path_param(scope, "name"))

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.seen.append(header(scope, b"authorization"))
        await respond(send, 200, b"data: {}\n\n", b"text/event-stream")

    async def ticket(self, name: str = "orders") -> Any:
        return await self.http.post(f"/subscriptions/{name}/stream_tickets", headers=AUTH)


async def test_a_ticket_opens_the_stream_of_its_subscription_for_a_minute() -> None:
    site = Site()
    made = await site.ticket()
    assert made.status_code == 201
    assert made.headers["cache-control"] == "no-store"
    answer = made.json()
    assert answer["expires_at"] == "1970-01-01T00:17:40Z"
    assert answer["path"] == f"/subscriptions/orders/messages:stream?ticket={answer['ticket']}"
    assert TOKEN not in made.text
    opened = await site.http.get(answer["path"] + "&max_seconds=1")
    assert (opened.status_code, opened.text) == (200, "data: {}\n\n")
    assert site.seen == [AUTH["authorization"].encode()], "what waits is judged by its token"
    site.now_s += TICKET_SECONDS
    assert (await site.http.get(answer["path"])).status_code == 401


async def test_it_opens_nothing_else() -> None:
    site = Site()
    ticket = (await site.ticket()).json()["ticket"]
    for path in (
        f"/subscriptions/offers/messages:stream?ticket={ticket}",
        f"/subscriptions/orders/messages?ticket={ticket}",
        f"/subscriptions/orders/messages:stream?ticket={ticket[:-4]}AAAA",
        "/subscriptions/orders/messages:stream?ticket=",
        "/subscriptions/orders/messages:stream?ticket=%C3%A4",
        "/subscriptions/orders/messages:stream",
    ):
        assert (await site.http.get(path)).status_code == 401, path
    assert (await site.http.post(f"/subscriptions/orders/stream_tickets?ticket={ticket}")).is_error
    assert site.seen == []


async def test_it_is_worth_what_its_token_is_worth() -> None:
    site = Site()
    assert (await site.ticket("invoices")).status_code == 403
    path = (await site.ticket()).json()["path"]
    other = Site(key=b"o" * 32)
    assert (await other.http.get(path)).status_code == 401, "sealed with another key"
    revoked = Site()
    revoked.tokens.revoked = True
    assert (await revoked.http.get(path)).status_code == 401


async def test_they_are_off_unless_switched_on() -> None:
    path = (await Site().ticket()).json()["path"]
    site = Site(on=False)
    refused = await site.ticket()
    assert refused.status_code == 404
    assert refused.json()["type"].endswith("/stream-tickets-off")
    assert (await site.http.get(path)).status_code == 401
    assert site.seen == []


async def test_there_is_no_ticket_for_a_subscription_that_the_tenant_has_not() -> None:
    assert (await Site().ticket("other")).status_code == 404
