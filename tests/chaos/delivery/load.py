"""Every way to consume, at work while faults happen. `prepare`, `start`, faults, `verify`: then all
of it was consumed as its actor's rule says, and the books of every subscription balance (P9)."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from collections.abc import Sequence

from tests.chaos.delivery import (
    choosing,
    effects,
    jobs,
    keyed,
    moving,
    parked,
    published,
    pushed,
    redriven,
    replaying,
    retrying,
    streamed,
    tasks,
)
from tests.chaos.delivery.actor import DRAIN_S, Actor, Site
from tests.chaos.delivery.caller import PAUSE_S, Caller
from tests.chaos.history import History, Lapse
from tests.chaos.porcupine import hold
from tests.chaos.sometimes import Sometimes

ACTORS: tuple[type[Actor], ...] = (
    retrying.Retrying,
    keyed.Keyed,
    effects.ExactlyOnce,
    effects.AtMostOnce,
    tasks.Tasks,
    jobs.Jobs,
    choosing.Filtered,
    choosing.Ranked,
    moving.Moving,
    streamed.Streamed,
    parked.Parked,
    redriven.Redriven,
    published.Published,
    pushed.Pushed,
    replaying.Replaying,
)


def situations_of(actors: Sequence[type[Actor]]) -> list[str]:
    """Return the situations that their modules list, and those of the classes they are made of."""
    modules = {each.__module__: sys.modules[each.__module__] for a in actors for each in a.__mro__}
    listed = (getattr(module, "SITUATIONS", ()) for module in modules.values())
    return [what for situations in listed for what in situations]


class DeliveryLoad:
    """All actors, or some, on a running platform."""

    def __init__(
        self,
        site: Site,
        seed: object,
        actors: Sequence[type[Actor]] = ACTORS,
        lapses: Sequence[float] = (),
    ) -> None:
        """Make the load; `lapses`: those of the cluster, which notes further ones there."""
        self.sometimes = Sometimes(situations_of(actors))
        self._site = site
        self._lapses = lapses
        self.actors = [
            make(site, random.Random(f"{seed}/{make.name}"), self.sometimes) for make in actors
        ]
        for actor in self.actors:
            actor.lapses = lapses
        self._stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def prepare(self) -> None:
        """Make topics and subscriptions; nothing is published yet."""
        caller = Caller(*self._site)
        for actor in self.actors:
            await actor.prepare(caller)
        caller.close()

    def start(self) -> None:
        """Start all actors."""
        self._tasks = [asyncio.create_task(actor.run(self._stopping)) for actor in self.actors]

    async def verify(self) -> None:
        """Check the rules as `verify_by_our_rules` does; then the same for porcupine's models."""
        try:
            await self.verify_by_our_rules()
        except AssertionError:
            with self._recorded().kept():
                raise
        await asyncio.to_thread(hold, self._recorded())

    async def verify_by_our_rules(self) -> None:
        """Stops publishing once each has published something, lets everything be consumed, and
        raises AssertionError when a rule is broken."""
        with contextlib.suppress(TimeoutError):  # then it says who did not
            async with asyncio.timeout(DRAIN_S):
                while not all(actor.accepted() for actor in self.actors):
                    await asyncio.sleep(PAUSE_S)
        self._stopping.set()
        await asyncio.gather(*self._tasks)
        caller = Caller(*self._site)
        broken = []
        for actor in self.actors:
            await actor.check(caller)
            await actor.check_books(caller)
            broken += actor.broken
            if not actor.accepted():
                broken.append(f"{actor.name}: nothing was published")
        caller.close()
        assert not broken, "\n".join(broken[:30])

    def _recorded(self) -> History:
        """Return the records of the actors whose deliveries a public checker judges too."""
        history = History("deliveries", [Lapse(at_s) for at_s in self._lapses])
        for actor in self.actors:
            if actor.recorded:
                history.add(*actor.history.records)
        return history

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
