"""Test the measurements in the processes that `make abuse` attacks."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from unittest import mock

import pytest

from edge.asgi import Receive, Scope, Send
from gateway.http.dispatch import Dispatcher
from gateway.http.router import Router
from harness.made_up_routes import made_up
from tests.abuse import probe
from tests.abuse.probe import Probe, Snapshot, name_routes, timed_passes
from tests.loop_cpu import timed

BUSY_S = 0.03


def busy() -> None:
    """Use `BUSY_S` of the thread's CPU time, no matter how long the thread waits for it."""
    until_s = time.thread_time() + BUSY_S
    while time.thread_time() < until_s:
        pass


async def handler(scope: Scope, receive: Receive, send: Send) -> None:
    busy()
    await asyncio.sleep(0)


def measured(work: Any) -> Snapshot:
    measuring = Probe()
    loops: Any = asyncio.BaseEventLoop
    passes = timed_passes(loops._run_once, measuring.passed)
    with (
        mock.patch.object(asyncio.Handle, "_run", timed(asyncio.Handle._run, measuring.note)),
        mock.patch.object(loops, "_run_once", passes),
    ):
        loop = asyncio.SelectorEventLoop()
        try:
            loop.run_until_complete(work())
        finally:
            loop.close()
    return measuring.read()


@pytest.fixture
def router() -> Any:
    """Yield a router that writes the route into the context of its request; undo this after
    the test.
    """
    match, make = Router.match, Dispatcher.__init__
    name_routes(Probe())
    router = Router()
    router.add(made_up("GET", "/things/{name}", handler, "public"))
    yield router
    Router.match, Dispatcher.__init__ = match, make  # type: ignore[method-assign]


def test_a_callback_that_takes_long_is_found_with_its_route(router: Router) -> None:
    async def request() -> None:
        found = router.match("GET", "/things/a")
        assert found is not None
        receive: Any = None
        await found[0].handler({}, receive, receive)

    async def work() -> None:
        await asyncio.gather(asyncio.create_task(request()), asyncio.sleep(0.01))

    longest = measured(work).longest[0]
    assert longest.route == "GET /things/{name}"
    assert longest.cpu_ms >= BUSY_S * 1000
    assert "request" in longest.what


def test_what_belongs_to_no_request_is_named_by_its_coroutine(router: Router) -> None:
    async def pump() -> None:
        busy()

    async def work() -> None:
        await asyncio.create_task(pump())

    longest = measured(work).longest[0]
    assert longest.route.endswith("pump")
    assert longest.cpu_ms >= BUSY_S * 1000


def test_a_pass_is_as_long_as_all_its_callbacks(router: Router) -> None:
    async def request() -> None:
        router.match("GET", "/things/a")
        busy()

    async def pump() -> None:
        busy()

    async def work() -> None:
        await asyncio.gather(pump(), request(), request(), request())

    longest = measured(work).passes[0]
    assert longest.cpu_ms >= 4 * BUSY_S * 1000
    assert longest.route == "GET /things/{name}"
    assert longest.what.startswith("4 callbacks, ")


def test_waiting_takes_nothing() -> None:
    async def work() -> None:
        await asyncio.sleep(BUSY_S * 2)

    snapshot = measured(work)
    assert snapshot.callbacks >= 2
    assert snapshot.longest[0].cpu_ms < BUSY_S * 1000


def test_what_was_read_is_forgotten() -> None:
    measuring = Probe()
    measuring._note(probe.NO_ROUTE, 9.0, busy)
    assert [one.cpu_ms for one in measuring.read().longest] == [9.0]
    assert measuring.read().longest == []
