"""Publishes that are served directly, beside the same ones that are dispatched: they are answered,
counted and charged alike, and nothing that changes meanwhile is missed.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import math
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from prometheus_client import REGISTRY

from auth.errors import TenantSuspended, TokenRefused
from auth.permissions import Permission
from auth.principal import Grant, Principal
from auth.verifier import CachingVerifier
from edge.quota import REQUESTS
from gateway.admission.admission import OVERLOADED
from gateway.app import create_app
from gateway.http.connection import Connection
from gateway.http.round_robin import ANSWERS_AT_ONCE, HANDLERS_AT_ONCE
from gateway.http.server import HttpServer
from gateway.middleware import request_id
from gateway.quotas.limiter import Limiter
from gateway.readiness import Readiness
from gateway.server import hypercorn_config
from metadata.tenancy.quotas import TenantQuota
from metadata.types import Change, ChangeKind
from publish_forwarder.forwarder import PublishForwarder
from publish_forwarder.routes import routes
from publish_forwarder.settings import PublishSettings
from tests.unit.gateway.test_http_cuts import Wire
from tests.unit.publish_forwarder.publish_support import TENANT, FakeCatalog, FakeStore, topic

TOKEN = b"pbdev_direct"
HEAD = b"POST /topics/orders/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %b\r\n%b"
LIMITS = (REQUESTS, "publish_messages_per_second", "publish_bytes_per_second")
_RANDOM = re.compile(rb"x-request-id: [^\r]*|date: [^\r]*|urn:packetboat:request:[^\"]*")


class Tokens:
    """Knows one token; `refusal` is raised instead while it is set."""

    def __init__(self) -> None:
        self.refusal: Exception | None = None
        self.grants = frozenset([Grant(Permission.PUBLISH, "topic", "*")])
        self.expires_at: float | None = None

    async def verify(self, token: bytes) -> Principal:
        if self.refusal is not None:
            raise self.refusal
        if token != TOKEN:
            raise TokenRefused
        return Principal(TENANT, "client", self.grants, "token:1", self.expires_at)


class Site:
    """A listener without sockets in front of a publish forwarder with a store in memory."""

    def __init__(self, *, direct: bool = True, **limits: float) -> None:
        self.now_s = 1000.0
        self.store, self.catalog = FakeStore(), FakeCatalog(topic(partitions=1))
        self.limiter = Limiter(LIMITS, {}, lambda: self.now_s)
        self.limiter.follow([TenantQuota(TENANT, limits)])
        self.usage: Counter[str] = Counter()
        self.tokens = Tokens()
        self.verifier = CachingVerifier(
            self.tokens, clock=lambda: self.now_s, wall=lambda: self.now_s
        )
        self.forwarder = PublishForwarder(
            self.catalog,
            self.store,
            PublishSettings(drain_s=0.05, timeout_s=2.0, max_in_flight_bytes=1_000_000),
            quotas=self.limiter,
            usage=self,
            registry=None,
        )
        self.app = create_app(
            routes(self.forwarder), self.verifier, Readiness(), quotas=self.limiter, usage=self
        )
        self.dispatched = 0
        given = self.app.direct if direct else None
        self.server = HttpServer(self._counting, hypercorn_config(), direct=given)
        self.wire, self.connection = self.connect()

    async def _counting(self, scope: Any, receive: Any, send: Any) -> None:
        self.dispatched += 1
        await self.app(scope, receive, send)

    def count(self, tenant_id: bytes, metric: str, value: float) -> None:
        assert tenant_id == TENANT
        self.usage[metric] += int(value)

    def connect(self) -> tuple[Wire, Connection]:
        wire, connection = Wire(), Connection(self.server)
        connection.connection_made(wire)
        return wire, connection

    async def send(self, raw: bytes) -> bytes:
        """Return what the server writes in answer to these bytes."""
        if self.wire.closed:
            self.wire, self.connection = self.connect()
        self.wire.written = b""
        self.connection.data_received(raw)
        return await self.written()

    async def written(self) -> bytes:
        for _ in range(60):
            await asyncio.sleep(0)
        return self.wire.written

    async def learn(self, raw: bytes) -> None:
        """Send a request until it is served directly."""
        for _ in range(3):
            await self.send(raw)
        before = self.dispatched
        answer = await self.send(raw)
        assert answer.startswith(b"HTTP/1.1 201"), answer
        assert self.dispatched == before, "it is served directly"


@asynccontextmanager
async def site_of(**options: Any) -> AsyncIterator[Site]:
    site = Site(**options)
    try:
        yield site
    finally:
        await site.forwarder.close()


def publish(body: bytes = b"hi", *fields: bytes, token: bytes = TOKEN) -> bytes:
    lines = [*fields, b"Content-Length: %d" % len(body)]
    return HEAD % (token, b"\r\n".join(lines)) + b"\r\n\r\n" + body


def status(answer: bytes) -> int:
    """Return the status of an answer; 0 for none."""
    return int(answer[9:12] or b"0")


def requests(code: int) -> float:
    labels = {"method": "POST", "route": "/topics/{topic}/messages", "status": str(code)}
    return REGISTRY.get_sample_value("packetboat_gateway_requests_total", labels) or 0.0


CORPUS = [
    publish(),
    publish(b""),
    publish(b"{}", b"Content-Type: application/json"),
    publish(b"k", b"Packetboat-Key: a%20b"),
    publish(b"p", b"Packetboat-Priority: 0", b"Packetboat-TTL: 10s"),
    publish(b"i", b"X-Request-Id: mine"),
    publish(b"i", b'X-Request-Id: "no"'),
    publish(b"t", b"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    publish(b"d", b"Packetboat-Durability: leader"),
    publish(b"d", b"Packetboat-Durability: none"),
    publish(b"a", b"Packetboat-Attr-One: 1"),
    publish(b"i", b"Idempotency-Key: i-1"),
    publish(b"w", b"Packetboat-Wrong: 1"),
    publish(b"c", b"Connection: close"),
    publish(b"f", b"Content-Type: application/x-www-form-urlencoded"),
    publish(b"o", b"Origin: https://example.com"),
    publish(b"x" * 70_000),
    publish(b"n").replace(b"/orders/", b"/no-topic/"),
    publish(b"q").replace(b"/messages ", b"/messages?x=1 "),
    publish(b"e").replace(b"/orders/", b"/%6Frders/"),
    publish(token=b"wrong"),
    publish().replace(b"POST", b"PUT"),
]


async def test_direct_and_dispatched_requests_are_answered_and_counted_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The corpus, each request five times, by both ways: bytes, log, usage, metrics, budget."""
    limits = {REQUESTS: 400.0, "publish_messages_per_second": 300.0}
    seen = []
    for direct in (False, True):
        monkeypatch.setattr(request_id, "_numbers", itertools.count(1))
        async with site_of(direct=direct, **limits) as site:
            before = {code: requests(code) for code in (201, 202, 401, 404, 405, 422, 429)}
            answers = [_RANDOM.sub(b"", await site.send(raw)) for raw in CORPUS for _ in range(5)]
            answers = [re.sub(rb"\"publish_id\":\"[^-]*", b"", answer) for answer in answers]
            after = {code: requests(code) - before[code] for code in before}
            log = list(site.store.partition(0).log)
            seen.append((answers, log, site.usage, after, site.app.running.count))
            assert site.forwarder.budget.held_bytes == 0
            total = len(CORPUS) * 5
            assert site.dispatched < total - 20 if direct else site.dispatched == total
    for by_dispatch, directly in zip(*seen, strict=True):
        assert directly == by_dispatch


async def test_a_request_id_is_new_for_each_request() -> None:
    async with site_of() as site:
        await site.learn(publish())
        ids = {re.search(rb"x-request-id: (\S+)", await site.send(publish())) for _ in range(3)}
        assert len({found[1] for found in ids if found}) == 3


async def drop(site: Site, kind: ChangeKind) -> None:
    await site.verifier.on_changes([Change(1, kind, TENANT, b"u" * 16, "x")])


async def test_a_revoked_token_is_refused_by_the_next_request() -> None:
    async with site_of() as site:
        await site.learn(publish())
        site.tokens.refusal = TokenRefused()
        await drop(site, ChangeKind.CLIENT)
        assert status(await site.send(publish())) == 401


async def test_a_token_ends_when_it_expires() -> None:
    async with site_of() as site:
        site.tokens.expires_at = site.now_s + 10
        await site.learn(publish())
        site.now_s += 9.9
        assert status(await site.send(publish())) == 201
        site.tokens.refusal = TokenRefused()
        site.now_s += 0.2
        assert status(await site.send(publish())) == 401


async def test_a_policy_that_changes_holds_from_the_next_request_on() -> None:
    async with site_of() as site:
        await site.learn(publish())
        site.tokens.grants = frozenset([Grant(Permission.PUBLISH, "topic", "other")])
        await drop(site, ChangeKind.POLICY)
        for _ in range(3):
            assert status(await site.send(publish())) == 403
        assert site.usage["requests"] == 4, "a request that is forbidden is not charged"


async def test_a_suspended_tenant_is_refused() -> None:
    async with site_of() as site:
        await site.learn(publish())
        site.tokens.refusal = TenantSuspended()
        await drop(site, ChangeKind.TENANT)
        assert status(await site.send(publish())) == 403


async def test_a_topic_that_is_deleted_is_not_found_and_one_made_again_gets_its_messages() -> None:
    async with site_of() as site:
        await site.learn(publish())
        del site.catalog.cached[TENANT, "orders"]
        assert status(await site.send(publish())) == 404
        again = topic(partitions=1, uid=8)
        site.catalog.cached[TENANT, "orders"] = again
        answer = await site.send(publish())
        assert status(answer) == 201
        assert b'"offset":0,' in answer


async def test_a_full_topic_is_refused_and_charged_as_by_dispatch() -> None:
    async with site_of() as site:
        await site.learn(publish())
        known = site.catalog.cached[TENANT, "orders"]
        full = replace(known, full="stored_bytes")
        site.catalog.cached[TENANT, "orders"] = full
        before = site.usage["requests"]
        assert status(await site.send(publish())) in (409, 429, 507)
        assert site.usage["requests"] == before + 1


async def test_a_topic_that_gets_a_schema_is_dispatched() -> None:
    async with site_of() as site:
        await site.learn(publish())
        known = site.catalog.cached[TENANT, "orders"]
        site.catalog.cached[TENANT, "orders"] = replace(known, schema="orders")
        before = site.dispatched
        await site.send(publish())
        assert site.dispatched == before + 1


async def test_a_limit_that_is_set_holds_at_once() -> None:
    async with site_of() as site:
        await site.learn(publish())
        site.limiter.follow([TenantQuota(TENANT, {REQUESTS: 8})])
        answers = [await site.send(publish()) for _ in range(4)]
        assert [status(answer) for answer in answers] == [201, 201, 429, 429]
        assert b"retry-after: 1\r\n" in answers[2]
        assert b"ratelimit-policy: " in answers[2]


async def test_a_client_that_leaves_is_counted_as_gone_and_its_message_is_stored() -> None:
    async with site_of() as site:
        await site.learn(publish())
        queue = site.store.partition(0)
        queue.held = True
        stored, gone = len(queue.log), requests(499)
        await site.send(publish())
        assert site.app.running.count == 1
        site.connection.connection_lost(None)
        queue.answer()
        await site.written()
        assert (len(queue.log), requests(499), site.app.running.count) == (stored + 1, gone + 1, 0)


async def test_a_defect_in_an_answer_is_a_500_and_spares_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with site_of() as site:
        await site.learn(publish())
        defects = [RuntimeError("a defect")]

        def headers(*_: Any) -> tuple[()]:
            if defects:
                raise defects.pop()
            return ()

        monkeypatch.setattr(site.limiter, "headers", headers)
        connections = [site.connect() for _ in range(3)]
        for _, connection in connections:
            connection.data_received(publish())
        await site.written()
        assert [status(wire.written) for wire, _ in connections] == [500, 201, 201]
        assert site.app.running.count == 0


async def test_a_request_that_is_served_directly_counts_as_a_quarter() -> None:
    async with site_of() as site:
        await site.learn(publish())
        site.store.partition(0).held = True
        known = [site.connect()[1] for _ in range(HANDLERS_AT_ONCE)]
        others = [site.connect()[1] for _ in range(HANDLERS_AT_ONCE)]
        for connection in known:
            connection.data_received(publish())
        for connection in others:
            connection.data_received(publish(b"a", b"Packetboat-Attr-One: 1"))
        assert [connection._request is not None for connection in known] == [True] * len(known)
        handlers_left = HANDLERS_AT_ONCE - len(known) / 4
        begun = [connection._request is not None for connection in others]
        assert begun.count(True) == math.ceil(handlers_left)


async def test_the_answers_of_an_append_go_over_several_passes() -> None:
    """One callback once made and wrote all of them: a thousand took 16 ms, without sockets."""
    async with site_of() as site:
        await site.learn(publish())
        queue = site.store.partition(0)
        queue.held = True
        await site.send(publish())
        connections = [site.connect() for _ in range(3 * ANSWERS_AT_ONCE)]
        for _, connection in connections:
            connection.data_received(publish())
        while site.app.running.count <= len(connections):
            await asyncio.sleep(0)
        queue.answer()
        await site.written()
        assert [len(sent.messages) for sent in queue.sent] == [len(connections)]
        queue.answer()
        answered = [0]
        while answered[-1] < len(connections):
            await asyncio.sleep(0)
            answered.append(sum(wire.written != b"" for wire, _ in connections))
        assert max(b - a for a, b in itertools.pairwise(answered)) == ANSWERS_AT_ONCE
        assert {status(wire.written) for wire, _ in connections} == {201}


@pytest.mark.parametrize("seed", range(20))
async def test_known_and_other_requests_run_once_and_in_order_however_they_are_cut(
    seed: int,
) -> None:
    random = Random(seed)
    async with site_of() as site:
        await site.learn(publish(b"0000"))
        stored = len(site.store.partition(0).log)
        bodies = [b"%04d" % number for number in range(30)]
        other = b"Packetboat-Attr-A: %d"
        raw = b"".join(
            publish(body, *([other % seed] if random.random() < 0.3 else [])) for body in bodies
        )
        site.wire.written = b""
        while raw:
            size = random.choice((1, 3, 50, 400, 2000))
            site.connection.data_received(raw[:size])
            raw = raw[size:]
            for _ in range(random.randrange(3)):
                await asyncio.sleep(0)
        for _ in range(40):
            await site.written()
        assert site.wire.written.count(b"HTTP/1.1 201") == len(bodies)
        log = site.store.partition(0).log[stored:]
        assert [message.data for message in log] == bodies


async def test_the_answer_of_a_process_that_leaves_is_the_last_of_its_connection() -> None:
    async with site_of() as site:
        await site.learn(publish())
        site.server.leaving = True
        assert b"\r\nconnection: close\r\n" in await site.send(publish())
        assert site.wire.closed


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with site_of() as site:
        await site.learn(publish())
        answer = await site.send(publish(b"a1") + publish(b"b2") + publish(b"ccc") + publish(b"d4"))
        assert answer.count(b"HTTP/1.1 201") == 4
        offsets = [int(each) for each in re.findall(rb"\"offset\":(\d+)", answer)]
        assert offsets == sorted(offsets)
        log = [message.data for message in site.store.partition(0).log]
        assert log[-4:] == [b"a1", b"b2", b"ccc", b"d4"]


async def test_requests_with_one_head_that_come_at_once_keep_their_bodies() -> None:
    async with site_of() as site:
        await site.learn(publish())
        connections = [site.connect() for _ in range(3)]
        for (_, connection), body in zip(connections, (b"a1", b"b2", b"c3"), strict=True):
            connection.data_received(publish(body))
        await site.written()
        assert all(wire.written.startswith(b"HTTP/1.1 201") for wire, _ in connections)
        log = [message.data for message in site.store.partition(0).log]
        assert log[-3:] == [b"a1", b"b2", b"c3"]


@pytest.mark.parametrize("size", [1, 7, 60])
async def test_however_the_bytes_of_known_heads_are_cut(size: int) -> None:
    async with site_of() as site:
        await site.learn(publish())
        raw = publish(b"a1") + publish(b"b2") + publish(b"c3")
        site.wire.written = b""
        for at in range(0, len(raw), size):
            site.connection.data_received(raw[at : at + size])
            await asyncio.sleep(0)
        answer = await site.written()
        assert answer.count(b"HTTP/1.1 201") == 3
        log = [message.data for message in site.store.partition(0).log]
        assert log[-3:] == [b"a1", b"b2", b"c3"]


async def test_what_is_not_admitted_is_refused_and_let_go() -> None:
    async with site_of() as site:
        await site.learn(publish())
        refusals = list(OVERLOADED)
        admission = Admits(refusals[0])
        site.app.running.admission = AskedAdmission(admission)  # type: ignore[assignment]
        site.server.heads._direct.clear()
        site.server.heads._known.clear()
        assert hashlib.sha256(TOKEN).digest() in site.verifier._good
        for _ in range(3):
            await site.send(publish())
        before = requests(503)
        assert status(await site.send(publish())) == 503
        assert requests(503) == before + 1
        admission.refusal = None
        assert status(await site.send(publish())) == 201
        assert admission.inside == 0


class Admits:
    """Counts who is inside, and lets nobody in while `refusal` is set."""

    def __init__(self, refusal: Any) -> None:
        self.refusal = refusal
        self.inside = 0

    def enter(self, *_: Any) -> Any:
        if self.refusal is None:
            self.inside += 1
        return self.refusal

    def leave(self, *_: Any) -> None:
        self.inside -= 1


class AskedAdmission:
    def __init__(self, admission: Admits) -> None:
        self.process = admission

    def kind(self, *_: Any) -> str:
        return "kind"
