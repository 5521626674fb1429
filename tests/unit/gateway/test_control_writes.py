"""Many changes of one tenant do not hold up those of another: a row that each of them holds."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from edge.asgi import CALLER, Receive, Route, Scope, Send
from gateway.wiring.opening import _observed
from harness.made_up_routes import made_up

ACME, EVIL = b"acme" * 4, b"evil" * 4


class Unaudited:
    """Audits nothing, but returns another route where something changes, as the auditor does."""

    def audited(self, route: Route) -> Route:
        return route._replace() if route.method != "GET" else route


class Counter:
    """One row that every change holds for its transaction; first come, first served."""

    def __init__(self) -> None:
        self.row = asyncio.Lock()
        self.waiting = 0
        self.most_waiting = 0
        self.order: list[bytes] = []

    async def change(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.waiting += 1
        self.most_waiting = max(self.waiting, self.most_waiting)
        async with self.row:
            await asyncio.sleep(0)
            self.order.append(scope["packetboat.tenant"])
        self.waiting -= 1


def scope_of(tenant_id: bytes) -> dict[str, Any]:
    return {"packetboat.tenant": tenant_id, "path_params": {}, CALLER: None}


async def call(route: Route, tenant_id: bytes) -> None:
    await route.handler(scope_of(tenant_id), cast(Any, None), cast(Any, None))


def served(counter: Counter, path: str = "/topics/{topic}") -> Route:
    plain = made_up("PATCH", path, counter.change, "manage", "topic:topic")
    (route,) = _observed([plain], cast(Any, Unaudited()), None, 50.0)
    return route


async def test_changes_of_one_tenant_do_not_hold_up_those_of_another() -> None:
    counter = Counter()
    route = served(counter)
    evil = [asyncio.create_task(call(route, EVIL)) for _ in range(48)]
    for _ in range(3):
        await asyncio.sleep(0)
    done = len(counter.order)
    await call(route, ACME)
    assert counter.order.index(ACME) - done <= 3
    assert counter.most_waiting <= 8
    for one in evil:
        one.cancel()
    await asyncio.gather(*evil, return_exceptions=True)
