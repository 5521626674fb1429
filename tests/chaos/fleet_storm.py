"""Faults on a fleet behind its balancer, while workers pull, stream and ack through it.

Subscribe and publish forwarders are killed, paused, and told to stop, each by itself and at random
moments; Postgres is killed and started again. Meanwhile units are wished to be elsewhere, whole
partitions and parts of one subscription, so that subscriptions have several owners and change them.
`verify` then holds every rule of the load against what workers saw, and the forwarders' own traces
of what they handed out against what arrived. Restarts that are orderly, with nothing else going on,
are no faults: nothing may be repeated for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import asyncpg

from harness.fleet import Fleet, Member
from tests.chaos.delivery import effects, keyed, retrying, streamed, tasks
from tests.chaos.delivery.actor import Actor, Site
from tests.chaos.delivery.counted import Counted, Sent
from tests.chaos.delivery.load import DeliveryLoad

CALM_S = (1.0, 6.0)
HINT_EVERY_S = (0.5, 3.0)
POSTGRES_CALM_S = (10.0, 25.0)
DOWN_S = (0.0, 3.0)
SETTLED_S = 1.0
FLEET_ACTORS: tuple[type[Actor], ...] = (
    Counted,
    keyed.Keyed,
    effects.ExactlyOnce,
    effects.AtMostOnce,
    streamed.Streamed,
    retrying.Retrying,
    tasks.Tasks,
)
RESTART = "restart"
KINDS = ("kill", "kill", "pause", "pause", RESTART)
_HINT = """
INSERT INTO assignment_hints (tenant_id, topic_uid, partition, subscription_uid, forwarder, reason)
SELECT units.tenant_id, units.topic_uid, units.partition, units.subscription_uid,
    incarnation, 'test'
FROM ({units} ORDER BY random() LIMIT 3) AS units,
    (SELECT incarnation FROM forwarders WHERE role = 'subscribe' AND lease_until > now()
     ORDER BY random() LIMIT 1) AS somebody
ON CONFLICT (tenant_id, topic_uid, partition, subscription_uid)
DO UPDATE SET forwarder = excluded.forwarder
"""
_HINTS = {
    "partition": _HINT.format(
        units="SELECT tenant_id, topic_uid, partition, subscription_uid FROM assignments"
        " WHERE subscription_uid = '00000000-0000-0000-0000-000000000000'"
    ),
    "part": _HINT.format(
        units="SELECT tenant_id, topic_uid, partition, subscription_uid FROM cursors"
    ),
    "none": "DELETE FROM assignment_hints",
}


class FleetStorm:
    """One storm; `pause_s` bounds how long a process is paused. Where restarts are all there is,
    they roll: the next one once the last is ready, so that there is somebody to hand over to."""

    def __init__(
        self,
        fleet: Fleet,
        actors: Sequence[type[Actor]],
        seed: int,
        *,
        kinds: Sequence[str] = KINDS,
        pause_s: tuple[float, float] = (1.0, 60.0),
    ) -> None:
        self.fleet = fleet
        self.faults: Counter[str] = Counter()
        self.hints: Counter[str] = Counter()
        self._lapses: list[float] = []
        site = Site(fleet.port, fleet.token)
        self.load = DeliveryLoad(site, seed, actors, self._lapses)
        self._seed = seed
        self._kinds = kinds
        self._orderly = set(kinds) == {RESTART}
        self._rolling = asyncio.Lock()
        self._pause_s = pause_s
        self._end_s = 0.0

    async def run(self, seconds: float) -> None:
        """Run the storm until the time is over; everything runs again afterwards."""
        self._end_s = time.monotonic() + seconds
        victims = [*self.fleet.subscribers, *(() if self._orderly else self.fleet.publishers)]
        async with asyncio.TaskGroup() as tasks:
            for member in victims:
                tasks.create_task(self._on(member, self._dice(member.name)))
            if not self._orderly:
                tasks.create_task(self._on_postgres(self._dice("postgres")))
            tasks.create_task(self._on_hints(self._dice("hints")))
        await self.fleet.until_ready()

    async def verify(self) -> None:
        """Raise AssertionError when a rule is broken, or a delivery arrived nowhere."""
        await self.load.verify()
        await asyncio.sleep(SETTLED_S)  # the last lines of the traces
        for counted in self.counted():
            traces = [member.trace for member in self.fleet.subscribers]
            lost = counted.unexplained(sent_of(counted.name, traces))
            assert not lost, f"handed out and received by nobody: {lost[:5]} of {len(lost)}"

    def counted(self) -> Iterator[Counted]:
        """Return the actors that count deliveries."""
        return (actor for actor in self.load.actors if isinstance(actor, Counted))

    def fault(self, kind: str) -> None:
        """Note a fault that is about to happen."""
        self.faults[kind] += 1
        if not self._orderly:
            self._lapses.append(time.monotonic())
            for counted in self.counted():
                counted.fault()

    def _dice(self, what: str) -> random.Random:
        return random.Random(f"{self._seed}/{what}")

    async def _on(self, member: Member, dice: random.Random) -> None:
        while True:
            await asyncio.sleep(dice.uniform(*CALM_S))
            left_s = self._end_s - time.monotonic()
            if left_s < 0:
                return
            kind = dice.choice(self._kinds)
            if self._orderly:
                await self._roll(member)
                continue
            self.fault(f"{member.role} {kind}")
            if kind == "pause":
                member.stop()
                # Mostly about as long as a lease; sometimes much longer.
                shortest, longest = self._pause_s
                await asyncio.sleep(min(longest, shortest + dice.expovariate(1 / 5)))
                member.cont()
                continue
            if kind == RESTART:
                await member.terminate()
            else:
                member.kill()
            await asyncio.sleep(dice.uniform(*DOWN_S))
            member.start()

    async def _roll(self, member: Member) -> None:
        async with self._rolling:
            self.fault(f"{member.role} {RESTART}")
            await member.terminate()
            member.start()
            await self.fleet.until_ready()

    async def _on_postgres(self, dice: random.Random) -> None:
        while True:
            await asyncio.sleep(dice.uniform(*POSTGRES_CALM_S))
            if time.monotonic() > self._end_s:
                return
            self.fault("postgres kill")
            await self.fleet.postgres_restart(kill=dice.random() < 0.5)
            self.fault("postgres again")

    async def _on_hints(self, dice: random.Random) -> None:
        """Move units by hints, as a scheduler does that finds all forwarders loaded.

        This is no fault: nothing is repeated for it.
        """
        while time.monotonic() < self._end_s:
            await asyncio.sleep(dice.uniform(*HINT_EVERY_S))
            with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                connection = await asyncpg.connect(self.fleet.database_url, timeout=2)
                try:
                    kind = dice.choice(("partition", "partition", "part", "part", "none"))
                    await connection.execute(_HINTS[kind], timeout=2)
                    self.hints[kind] += 1
                finally:
                    connection.terminate()


def sent_of(subscription: str, traces: Sequence[Path]) -> list[Sent]:
    """Return the deliveries of the subscription by the traces; a line cut by a kill counts
    for nothing.
    """
    found = []
    for trace in traces:
        for text in trace.read_text().splitlines() if trace.exists() else ():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if line["subscription"] == subscription and line["outcome"] == "sent":
                places = tuple((partition, offset) for partition, _, offset, _ in line["messages"])
                found.append(Sent(line["time_us"] / 1e6, places))
    return found
