"""Callers of every command but the plain append, at work while faults happen: messages with ids
that are sent again, delays, truncations, counters, checkpoints and leader transfers.

Each actor keeps what it was told and checks it itself at the end (`command_history`); porcupine is
shown what is appended with ids, to queues that are sealed, and what is done to counters. They talk
to the store nodes directly, so each answer is the log's own; the work of forwarders is tested
elsewhere.
"""

from __future__ import annotations

import asyncio
import random

from harness.cluster import ChaosCluster
from store_nodes.client import StoreClient
from tests.chaos.command_actors import CounterActor, DelayActor, Operating
from tests.chaos.command_support import SITUATIONS, Actor, until_done
from tests.chaos.command_writers import IdActor, SealActor, TrimActor
from tests.chaos.history import History
from tests.chaos.porcupine import hold
from tests.chaos.sometimes import Sometimes

GROUPS_USED = (0, 1, 2)


class CommandLoad:
    """All actors on an installation. `start`, faults, `stop`, `verify`."""

    def __init__(self, cluster: ChaosCluster, client: StoreClient, seed: int) -> None:
        self.sometimes = Sometimes(SITUATIONS)
        self.client = client
        self.history = History("commands")
        self._stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._actors: list[Actor] = []
        self._cluster = cluster
        self._seed = seed

    @classmethod
    async def on(cls, cluster: ChaosCluster, seed: int) -> CommandLoad:
        """Makes the queues; nothing is sent yet."""
        client = cluster.store_client()
        await client.start()
        await client.wait_ready()
        load = cls(cluster, client, seed)
        for group in GROUPS_USED:
            dice = random.Random(f"{seed}/{group}")
            actors: list[Actor] = [
                IdActor(cluster, client, group, dice, load.sometimes, load.history),
                TrimActor(client, group, dice, load.sometimes),
                DelayActor(client, group, dice, load.sometimes),
            ]
            load._actors += actors
        load._actors += [
            SealActor(client, 0, random.Random(f"{seed}/seals"), load.sometimes, load.history),
            CounterActor(
                client, 0, random.Random(f"{seed}/counters"), load.sometimes, load.history
            ),
            Operating(client, random.Random(f"{seed}/operating"), load.sometimes),
        ]
        return load

    def start(self) -> None:
        """The actors begin, also again after `stop`."""
        self._stopping.clear()
        self._tasks = [asyncio.create_task(actor.run(self._stopping)) for actor in self._actors]

    async def stop(self) -> None:
        """Returns when every actor has its last answer."""
        self._stopping.set()
        await asyncio.gather(*self._tasks)
        self._tasks = []

    async def verify(self) -> None:
        """Stop the load; raises AssertionError when a rule is broken."""
        await self.stop()
        broken = [
            f"{type(actor).__name__}: {what}"
            for actor in self._actors
            for what in await until_done(actor.check)
        ]
        with self.history.kept():
            assert not broken, "\n".join(broken[:20])
        await asyncio.to_thread(hold, self.history)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.client.close()
