"""Changes of the control plane take limit and have a rate, both by tenant."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from edge.asgi import Route
from edge.problem import Problem
from gateway import write_limit
from gateway.tenancy.issuers import IssuerRoutes
from gateway.write_limit import WriteLimit
from harness.made_up_routes import made_up
from metadata.errors import NotFound
from metadata.tenancy.issuers import Issuer, IssuerSpec
from tests.unit.gateway.test_control_writes import ACME, EVIL, Counter, call, scope_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Issuers:
    """The part of `IssuerRepository` that registers; `busy` is how many operations are under
    way."""

    def __init__(self) -> None:
        self.busy = 0
        self.most_busy = 0
        self.made = 0

    async def get(self, tenant_id: bytes, name: str) -> Issuer:
        await self._operation()
        raise NotFound("issuer", name)

    async def page(self, tenant_id: bytes, **_: Any) -> Any:
        raise AssertionError("no listing")

    async def update(self, tenant_id: bytes, name: str, spec: IssuerSpec, **_: Any) -> Issuer:
        return await self.get(tenant_id, name)

    async def create(self, tenant_id: bytes, spec: IssuerSpec) -> Issuer:
        await self._operation()
        self.made += 1
        claims: Any = ("RS256",), "sub", {}, {}, 1, NOW, NOW, "document"
        return Issuer(tenant_id, b"u" * 16, spec.name, spec.issuer, "app", *claims)

    async def _operation(self) -> None:
        self.busy += 1
        self.most_busy = max(self.busy, self.most_busy)
        await asyncio.sleep(0)
        self.busy -= 1


async def register(route: Route, tenant_id: bytes) -> None:
    body = b'{"issuer": "https://id.example", "audience": "app", "name": "sso"}'

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        assert message.get("status", 201) == 201

    scope = scope_of(tenant_id) | {"path_params": {"name": "sso"}, "headers": []}
    await route.handler(scope, receive, send)


async def test_what_waits_is_bounded_and_the_next_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(write_limit, "MAX_WAITING", 4)
    counter = Counter()
    route = WriteLimit(per_second=50.0).around(
        made_up("PUT", "/x", counter.change, "manage", "topic:topic")
    )
    async with counter.row:
        held = [asyncio.create_task(call(route, EVIL)) for _ in range(4)]
        beyond = asyncio.create_task(call(route, EVIL))
        for _ in range(5):
            await asyncio.sleep(0)
        assert beyond.done(), "it is refused at once"
        with pytest.raises(Problem) as refused:
            await beyond
        assert (refused.value.status, refused.value.slug) == (429, "too-many-changes")
        other = asyncio.create_task(call(route, ACME))
        await asyncio.sleep(0)
    await asyncio.gather(other, *held)
    assert len(counter.order) == 5


async def test_a_tenant_that_changes_more_than_its_rate_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]

    async def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(write_limit, "_sleep", sleep)
    counter = Counter()
    limit = WriteLimit(per_second=10.0, clock=lambda: now[0])
    route = limit.around(made_up("PUT", "/x", counter.change, "manage", "topic:topic"))
    for _ in range(3):
        await call(route, EVIL)
    assert now[0] == 0.0, "a burst of a quarter of a second passes"
    for _ in range(20):
        await call(route, EVIL)
    assert 1.9 <= now[0] <= 2.2
    before = now[0]
    await call(route, ACME)
    assert now[0] == before, "another tenant has a rate of its own"


async def test_what_waits_for_the_outside_takes_no_turn() -> None:
    route = made_up("POST", "/subscriptions/{name}:test", Counter().change, "manage", "topic:topic")
    assert WriteLimit(per_second=50.0).around(route) is route


async def test_a_document_of_an_issuer_is_read_without_a_turn_or_a_transaction() -> None:
    """Reading the document may take seconds; the issuer decides."""
    issuers, reading, go = Issuers(), 0, asyncio.Event()

    async def prove(tenant_id: bytes, spec: IssuerSpec, present: Issuer | None) -> IssuerSpec:
        nonlocal reading
        reading += 1
        await go.wait()
        return spec

    limit = WriteLimit(per_second=50.0)
    routes = {route.method: route for route in IssuerRoutes(cast(Any, issuers), prove).routes()}
    put, post = limit.around(routes["PUT"]), limit.around(routes["POST"])
    changing = [asyncio.create_task(register(put, EVIL)) for _ in range(write_limit.AT_ONCE)]
    changing += [asyncio.create_task(register(post, ACME)) for _ in range(write_limit.AT_ONCE)]
    for _ in range(50):
        await asyncio.sleep(0)
    assert reading == 2 * write_limit.AT_ONCE
    assert (limit.permits.at_once.held, issuers.busy) == (0, 0)
    counter = Counter()
    await call(limit.around(made_up("PUT", "/x", counter.change, "manage", "topic:topic")), EVIL)
    assert counter.order == [EVIL]
    go.set()
    await asyncio.gather(*changing)
    assert issuers.made == 2 * write_limit.AT_ONCE
    assert (limit.permits.at_once.held, issuers.most_busy) == (0, 4), "two of each tenant at a time"
