"""One seed of the delivery half → one result. Each runs in a process of its own."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import structlog

from tests.chaos.delivery import actor
from tests.chaos.delivery.actor import Site
from tests.chaos.delivery.caller import Caller
from tests.chaos.delivery.load import DeliveryLoad
from tests.simulation.delivery import lake
from tests.simulation.delivery.faults import Faults
from tests.simulation.delivery.forgetting import Forgetting
from tests.simulation.delivery.installation import (
    SERVERS,
    TOKEN,
    Installation,
    replaced,
)
from tests.simulation.delivery.mutations import MUTATIONS
from tests.simulation.delivery.options import Options, draw
from tests.simulation.delivery.postgres_network import PostgresFaults
from tests.simulation.kernel import stdlib
from tests.simulation.kernel.world import SECOND, World

LONGEST_S = 400
"""Virtual seconds within which everything was consumed, or it never is."""
BEGIN_S = 60
PUBLISH_PAUSE_S = 0.2


@dataclass(slots=True)
class Result:
    """A seed came to this."""

    seed: int
    options: str
    failure: str = ""
    trace: str = ""
    virtual_s: float = 0.0
    events: int = 0
    statements: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    """Faults and situations, by name."""
    log: list[str] = field(default_factory=list)
    """The processes of a seed that failed logged these lines."""

    def last_line(self) -> str:
        """Return the last line about the failure."""
        return self.failure.strip().rpartition("\n")[2]


class _Clients:
    """The process that publishes and consumes, and judges by what it was answered."""

    def __init__(self, options: Options, faults: Faults) -> None:
        self._heard = faults.heard
        self.prepared = False
        self.judging = False
        self.failure = ""
        self.load: DeliveryLoad | None = None
        self._options = options
        self._forgotten = faults.forgotten

    async def work(self) -> None:
        try:
            await self._work()
        except Exception:
            self.failure = traceback.format_exc()

    async def _work(self) -> None:
        port, *others = SERVERS.values()
        options = self._options
        for each in (port, *others):
            await self._until_ready(each)
        self.load = DeliveryLoad(
            Site(port, TOKEN, tuple(others)), options.seed, list(options.actors)
        )
        for each in self.load.actors:
            if isinstance(each, Forgetting):
                each.forgotten = self._forgotten
        self.load.sometimes.heard = self._heard
        await self.load.prepare()
        self.prepared = True
        self.load.start()
        await asyncio.sleep(options.busy_s)
        self.judging = True
        await self.load.verify_by_our_rules()

    async def _until_ready(self, port: int) -> None:
        caller = Caller(port, TOKEN)
        while (await caller.call("GET", "/readyz")).status != 200:
            await asyncio.sleep(0.1)
        caller.close()


DEFECTS = ("handler failed", "unhandled", "background task failed")
"""The events that the product logs when an error comes that nobody expected."""


class _Log:
    """This keeps the lines that the product logs, and fails the world at those that must never
    come."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.lines: list[str] = []
        self.heard: Callable[[str, str], None] | None = None
        """Told of each event, and of the process that logs it."""

    def __call__(self, logger: Any, level: str, event: Any) -> Any:
        fiber = self._world.current
        if fiber is None:  # A dead process: Python closes its coroutines, and nobody hears them.
            raise structlog.DropEvent
        error = event.pop("exc_info", None)
        if isinstance(error, BaseException):
            event["error"] = "".join(traceback.format_exception(error))
        name = fiber.process.name
        line = f"{self._world.now_us / SECOND:.6f} {name} {event}"
        self.lines.append(line)
        if self.heard is not None:
            self.heard(name, str(event.get("event")))
        if not fiber.process.dead and event.get("event") in DEFECTS:
            self._world.fail(AssertionError(line))
        raise structlog.DropEvent


def run(seed: int, mutation: str | None = None, *, aimed: bool = True) -> Result:
    """Run one seed to its end or its first violation. Call it once in a process.

    `aimed`: with a mutation the seed has what can show it, and else what it has without.
    """
    options = draw(seed)
    if mutation is not None and aimed:
        options = MUTATIONS[mutation].aimed(options)
    world = World(seed)
    log = _Log(world)
    structlog.configure(processors=[log], cache_logger_on_first_use=False)
    result = Result(seed, str(options))
    with ExitStack() as stack:
        stack.enter_context(stdlib.installed(world, seed))
        for each in replaced(world):
            stack.enter_context(each)
        stack.enter_context(lake.installed())
        if mutation is not None:
            stack.enter_context(MUTATIONS[mutation].made())
        actor.Actor.pause_s = PUBLISH_PAUSE_S
        place = Installation(world, seed, nodes=options.nodes, faults=PostgresFaults())
        stack.callback(place.close)
        stack.enter_context(place.watched())
        faults = Faults(place, options)
        log.heard = faults.logged
        clients = _Clients(options, faults)
        try:
            _live(place, clients, faults)
            result.failure = clients.failure
        except Exception:
            result.failure = clients.failure or traceback.format_exc()
        result.trace = f"{world.trace()}-{place.trace.digest()}"
        result.virtual_s, result.events = world.now_us / SECOND, world.events
        result.statements = place.trace.events
        counts = faults.counts + place.postgres.faults.counts
        if clients.load is not None:
            counts += clients.load.sometimes.seen
        result.counts = dict(counts)
        if result.failure:
            result.log = log.lines
    return result


def _live(place: Installation, clients: _Clients, faults: Faults) -> None:
    world = place.world
    place.start()
    process = place.start_clients("clients", clients.work)

    def until(what: str, seconds: float) -> None:
        done = lambda: process.dead or getattr(clients, what)  # noqa: E731
        if not world.run(world.now_us + int(seconds * SECOND), done):
            raise AssertionError(f"not {what} after {seconds} virtual seconds")

    until("prepared", BEGIN_S)
    faults.start()
    until("judging", BEGIN_S)
    faults.heal()
    if not world.run(world.now_us + LONGEST_S * SECOND, lambda: process.dead):
        raise AssertionError(f"not everything was consumed in {LONGEST_S} virtual seconds")
