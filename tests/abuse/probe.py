"""Inside a process of the product: how long callbacks of its event loop run, and for which route.

The time is CPU time of the loop's thread, so that other programs on the machine change nothing. A
callback belongs to the route that its context was last matched to; one that belongs to no request
is named by its coroutine or function. A request waits for a whole pass of the loop, which runs
every callback that is ready, so passes are measured too: a pass belongs to the route whose
callbacks took most of it.

The product runs on uvloop, whose callbacks cannot be seen from Python: here it runs on asyncio's
own loop, which calls the same functions of the product. That loop is slower, and each of its
connections leaves a reference cycle: where the memory and the speed of the process are asked for,
it runs `AS_SHIPPED`.

The socket of tests/inside.py gives the measures, and forgets them.
"""

from __future__ import annotations

import asyncio
import asyncio.sslproto
import contextvars
import gc
import os
import resource
import time
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from tests import inside
from tests.loop_cpu import timed

AS_SHIPPED = "ABUSE_AS_SHIPPED"
"""With this environment variable a process runs on uvloop, as users run it: no callback is timed,
and what is measured of the whole process is the product's."""
MAX_NAMES = 2000
SSL_BUFFER_BYTES = 16 * 1024
SHORT_PASS_MS = 1.0
"""Shorter passes are not looked at: there are thousands a second."""
NO_ROUTE = "no request"
Route = tuple[str, str]
_route: contextvars.ContextVar[str] = contextvars.ContextVar("route", default=NO_ROUTE)


class Longest(msgspec.Struct):
    """The callback, or the pass, of a route that took most."""

    cpu_ms: float
    what: str
    route: str


NOT_TIMED = Longest(0.0, "no callback that was timed", NO_ROUTE)


class Snapshot(msgspec.Struct):
    """The measures since the last one was read."""

    longest: list[Longest]
    """The longest callback of each route, those of no request too; the longest first."""
    passes: list[Longest]
    """The longest pass of each route, likewise."""
    callbacks: int
    loop_cpu_ms: float
    other_cpu_ms: float
    """CPU time of the process's other threads. One that computes may hold the GIL."""
    collection_ms: float
    """The longest collection of garbage; it is in a callback's time, too."""
    routes: list[Route] = []
    """The routes that the process serves, by method and path template; a store node has none."""


class Probe:
    """The measures of this process.

    Its numbers are written by the loop's thread and read by another one: each is one attribute, so
    the reader sees an old one or a new one.
    """

    def __init__(self) -> None:
        self.routes: list[Route] = []
        self._longest: dict[str, Longest] = {}
        self._passes: dict[str, Longest] = {}
        self._of_pass: dict[str, float] = {}
        """Milliseconds of the present pass, by route."""
        self._callbacks_of_pass = 0
        self._callbacks = 0
        self._loop_ms = 0.0
        self._collection_began_ns = self._collection_ns = 0
        self._since_s = _cpu_s()

    def note(self, handle: Any, took_ms: float) -> None:
        """A callback of the loop has run."""
        self._callbacks += 1
        self._loop_ms += took_ms
        self._note(handle._context.get(_route, NO_ROUTE), took_ms, handle._callback)

    def passed(self, took_ms: float) -> None:
        """A pass of the loop has ended."""
        of_pass, self._of_pass = self._of_pass, {}
        callbacks, self._callbacks_of_pass = self._callbacks_of_pass, 0
        if took_ms < SHORT_PASS_MS or not of_pass:
            return
        route, most_ms = max(of_pass.items(), key=itemgetter(1))
        known = self._passes.get(route)
        if known is None or took_ms > known.cpu_ms:
            what = f"{callbacks} callbacks, {most_ms:.1f} ms of {route}"
            self._passes[route] = Longest(took_ms, what, route)

    def _note(self, route: str, took_ms: float, callback: Any) -> None:
        if route is NO_ROUTE:
            route = _named(callback) if len(self._longest) < MAX_NAMES else NO_ROUTE
        self._of_pass[route] = self._of_pass.get(route, 0.0) + took_ms
        self._callbacks_of_pass += 1
        known = self._longest.get(route)
        if known is None or took_ms > known.cpu_ms:
            self._longest[route] = Longest(took_ms, _named(callback), route)

    def collected(self, phase: str, _: object) -> None:
        """Measure a collection; `gc.callbacks` calls it."""
        if phase == "start":
            self._collection_began_ns = time.thread_time_ns()
        else:
            took_ns = time.thread_time_ns() - self._collection_began_ns
            self._collection_ns = max(self._collection_ns, took_ns)

    def read(self) -> Snapshot:
        """Return the measures since the last call."""
        longest, self._longest = self._longest, {}
        passes, self._passes = self._passes, {}
        callbacks, self._callbacks = self._callbacks, 0
        loop_ms, self._loop_ms = self._loop_ms, 0.0
        collection_ns, self._collection_ns = self._collection_ns, 0
        now_s = _cpu_s()
        others_ms = max(0.0, (now_s - self._since_s) * 1000 - loop_ms)
        self._since_s = now_s
        return Snapshot(
            _ranked(longest),
            _ranked(passes),
            callbacks,
            loop_ms,
            others_ms,
            collection_ns / 1e6,
            self.routes,
        )


def prepare() -> Probe:
    """Measure this process from now on. Nothing of the product may be imported yet."""
    import uvloop

    probe = Probe()
    inside.answer(lambda: msgspec.json.encode(probe.read()))
    gc.callbacks.append(probe.collected)
    if AS_SHIPPED in os.environ:
        return probe
    asyncio.Handle._run = timed(asyncio.Handle._run, probe.note)  # type: ignore[method-assign]
    loops: Any = asyncio.BaseEventLoop
    loops._run_once = timed_passes(loops._run_once, probe.passed)
    uvloop.new_event_loop = asyncio.SelectorEventLoop  # type: ignore[assignment]
    uvloop.run = asyncio.run  # type: ignore[assignment]
    # uvloop does not touch the buffer of a connection of TLS before it is used, and frees it with
    # the connection. asyncio fills it with zeros, and leaves it to the collector of garbage.
    asyncio.sslproto.SSLProtocol.max_size = SSL_BUFFER_BYTES
    return probe


def timed_passes(
    run_once: Callable[[asyncio.BaseEventLoop], None], note: Callable[[float], None]
) -> Callable[[asyncio.BaseEventLoop], None]:
    """Return an `asyncio.BaseEventLoop._run_once` that reports the CPU milliseconds of each pass.

    It includes the time in which the loop asks what is ready.
    """

    def timed_run_once(loop: asyncio.BaseEventLoop) -> None:
        began_s = time.thread_time()
        run_once(loop)
        note((time.thread_time() - began_s) * 1000)

    return timed_run_once


def name_routes(probe: Probe) -> None:
    """Callbacks are told apart by route; the routes are those that the process really serves."""
    from gateway.http.dispatch import Dispatcher
    from gateway.http.pages import Pages
    from gateway.http.router import Router
    from gateway.readiness import Readiness
    from openapi.server import OPERATIONS

    pages = [("GET", OPERATIONS[id].path) for id in Pages(Readiness()).public()]
    match, make = Router.match, Dispatcher.__init__

    def matched(self: Router, method: str, path: str) -> Any:
        found = match(self, method, path)
        template = path[:64] if found is None else found[0].template
        _route.set(f"{method} {template}")
        return found

    def made(self: Dispatcher, router: Router, verifier: Any, fallback: Any, **more: Any) -> None:
        make(self, router, verifier, fallback, **more)
        probe.routes = [(endpoint.method, endpoint.template) for endpoint in router.endpoints]
        probe.routes += pages

    Router.match = matched  # type: ignore[method-assign]
    Dispatcher.__init__ = made  # type: ignore[method-assign]


def read(sockets: Path, pid: int) -> Snapshot:
    """Return the measures of a process since the last call."""
    return msgspec.json.decode(inside.ask(sockets, pid), type=Snapshot)


def _cpu_s() -> float:
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return spent.ru_utime + spent.ru_stime


def _ranked(longest: dict[str, Longest]) -> list[Longest]:
    return sorted(longest.values(), key=lambda one: -one.cpu_ms)


def _named(callback: Any) -> str:
    """Return the name of a callback; a task's step has the name of its coroutine."""
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        callback = owner.get_coro()
    elif owner is not None and not hasattr(callback, "__qualname__"):
        callback = type(owner)
    return str(getattr(callback, "__qualname__", None) or type(callback).__name__)
