"""A fleet as a fluid: demand flows to where units are owned, and what a core can't take stands.

Forwarders report as real ones do, smoothed over seconds, and follow hints a few seconds late. Time
is in steps of a second; every other one the balancer has a round.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from metadata.delivery.fleet import LiveForwarder, TopicKey
from metadata.delivery.hints import Hint
from metadata.delivery.loads import MAX_UNITS, Load, UnitLoad
from metadata.locks.locks import Lock
from metadata.types import WHOLE, Unit
from scheduler.balancing.balancer import EVERY_S, Balancer
from subscribe_forwarder.fleet.load import SMOOTHED_OVER_S
from subscribe_forwarder.fleet.rendezvous import home

TENANT = bytes(15) + b"\x01"
LOCK = Lock(bytes(16), "scheduler", bytes(16), 1, math.inf)
IDLE_CPU = 0.02
LATE_S = 4
"""Seconds from a hint, or a death, until the unit is at its new owner."""
_WEIGHT = -math.expm1(-1 / SMOOTHED_OVER_S)


@dataclass
class Flow:
    """A subscription's part of one partition."""

    per_second: float
    """Messages per second that are demanded."""
    cpu_s: float
    """CPU time that one message costs."""
    served: float = 0.0
    """Messages per second, smoothed, as reported."""
    backlog: float = 0.0
    unacked: float = 0.0
    """Messages that consumers hold; they cost nothing."""
    growth: float = 0.0


@dataclass
class Process:
    started_s: float
    cpu: float = 0.0
    """Cores in use, smoothed."""
    used: float = 0.0
    """Cores used in the last second."""


@dataclass
class Decision:
    """The changes that one round wrote."""

    at_s: float
    put: dict[Unit, bytes] = field(default_factory=dict)
    removed: set[Unit] = field(default_factory=set)
    kinds: list[str] = field(default_factory=list)


class Served:
    """The parts that one owner has."""

    def __init__(self) -> None:
        self.flows: list[Flow] = []
        self.parts: list[tuple[Unit, list[Flow]]] = []
        """Each subscription's part by itself, as a forwarder reports them."""
        self.wholes: dict[Unit, list[Flow]] = {}
        """The parts that are not split off, by partition."""


class Model:
    """A model of a fleet, which is also the repositories that the balancer uses."""

    def __init__(self, forwarders: int, seed: int = 1) -> None:
        self.random = random.Random(seed)
        self.now_s = 1000.0
        self.processes: dict[bytes, Process] = {}
        self.flows: dict[Unit, Flow] = {}
        self.hints: dict[Unit, tuple[bytes, str, float]] = {}
        self.owners: dict[Unit, bytes | None] = {}
        self.decisions: list[Decision] = []
        self.statements = 0
        self._leaving: dict[Unit, float] = {}
        self._still: object = None
        """Hints, processes and owners at a time when nothing was on its way."""
        self._bases: dict[Unit, Unit] = {}
        """Bases of the parts, since `Unit.base` makes a new object each time."""
        self._at: dict[bytes | None, Served] | None = None
        """Parts by owner; None until they are computed."""
        self._homes: dict[tuple[bytes, frozenset[bytes]], bytes | None] = {}
        self.balancer = Balancer(self, self, home, lambda: LOCK, lambda: self.now_s)
        for _ in range(forwarders):
            self.start(started_s=self.now_s - 100)

    # Changes of the fleet.

    def start(self, started_s: float | None = None) -> bytes:
        incarnation = self.random.randbytes(16)
        self.processes[incarnation] = Process(self.now_s if started_s is None else started_s)
        return incarnation

    def kill(self, incarnation: bytes) -> None:
        del self.processes[incarnation]

    def topic(self, partitions: int = 1, *, at: bytes | None = None) -> list[Unit]:
        """Make a topic, whose home is `at` if given; return its partitions."""
        while True:
            uid = self.random.randbytes(16)
            if at is None or home(uid, self.weights) == at:
                units = [Unit(TENANT, uid, number) for number in range(partitions)]
                self.owners |= dict.fromkeys(units, home(uid, self.weights))
                return units

    def subscription(
        self, partitions: Iterable[Unit], cpu: float, cpu_s: float = 1e-4
    ) -> list[Unit]:
        """Takes this much of a core in each partition."""
        uid = self.random.randbytes(16)
        parts = [unit._replace(subscription_uid=uid) for unit in partitions]
        self.flows |= {part: Flow(cpu / cpu_s, cpu_s) for part in parts}
        self._bases |= {part: part.base for part in parts}
        self._at = None
        return parts

    def demand(self, parts: Iterable[Unit], cpu: float) -> None:
        for part in parts:
            self.flows[part].per_second = cpu / self.flows[part].cpu_s

    @property
    def weights(self) -> dict[bytes, float]:
        return dict.fromkeys(self.processes, 1.0)

    @property
    def backlog(self) -> float:
        return sum(flow.backlog for flow in self.flows.values())

    async def run(self, seconds: int) -> list[Decision]:
        """Run for some seconds; return the decisions."""
        before = len(self.decisions)
        for _ in range(seconds):
            self.now_s += 1
            self._move()
            self._flow()
            if self.now_s % EVERY_S == 0:
                await self.balancer.round()
        return self.decisions[before:]

    def owner(self, part: Unit) -> bytes | None:
        """Return the owner of a subscription's part."""
        return self.owners[part] if part in self.owners else self.owners[self._bases[part]]

    def _wanted(self, unit: Unit) -> bytes | None:
        hint = self.hints.get(unit)
        if hint is not None and hint[0] in self.processes:
            return hint[0]
        return self._home(unit.topic_uid) if unit.subscription_uid == WHOLE else None

    def _home(self, topic_uid: bytes) -> bytes | None:
        """Return what `home` says; asked each second of each unit, it is worked out once."""
        asked = (topic_uid, frozenset(self.processes))
        if asked not in self._homes:
            self._homes[asked] = home(topic_uid, self.weights)
        return self._homes[asked]

    def _move(self) -> None:
        """Move units to where they are wanted, after a while in which they have no owner."""
        hinted = {unit: hint[0] for unit, hint in self.hints.items()}
        if self._still == (hinted, self.processes.keys(), self.owners):
            return
        before = self.owners.copy()
        for unit in [unit for unit in self.hints if unit.subscription_uid != WHOLE]:
            if self._wanted(unit) not in (None, self._wanted(unit.base)):
                self.owners.setdefault(unit, None)
        for unit, owner in list(self.owners.items()):
            wanted = self._wanted(unit)
            if unit.subscription_uid != WHOLE and wanted in (None, self._wanted(unit.base)):
                del self.owners[unit]
                continue
            if owner not in self.processes:
                self.owners[unit] = None
            if owner == wanted:
                self._leaving.pop(unit, None)
            elif self.now_s - self._leaving.setdefault(unit, self.now_s) >= LATE_S:
                self.owners[unit] = wanted
        if self.owners != before:
            self._at = None
        elif not self._leaving:
            self._still = (hinted, set(self.processes), before)

    def _flow(self) -> None:
        at = self._served()
        for owner, served in at.items():
            if owner not in self.processes:
                for one in served.flows:
                    _serve(one, 0.0)
        for incarnation, process in self.processes.items():
            flows = at[incarnation].flows if incarnation in at else []
            wanted = IDLE_CPU + sum([(one.per_second + one.backlog) * one.cpu_s for one in flows])
            share = min(1.0, 1 / wanted)
            for one in flows:
                _serve(one, share * (one.per_second + one.backlog))
            process.used = share * wanted
            process.cpu += _WEIGHT * (process.used - process.cpu)

    def _served(self) -> dict[bytes | None, Served]:
        """Return what each process serves; under None what nobody does."""
        if self._at is None:
            self._at = {}
            for part, flow in self.flows.items():
                served = self._at.setdefault(self.owner(part), Served())
                served.flows.append(flow)
                served.parts.append((part, [flow]))
                if part not in self.owners:
                    served.wholes.setdefault(self._bases[part], []).append(flow)
        return self._at

    def load(self, incarnation: bytes) -> Load:
        """Return the report of a process."""
        served = self._served().get(incarnation, Served())
        return Load(
            cpu=self.processes[incarnation].cpu,
            lag_s=0.0,
            per_second=sum([flow.served for flow in served.flows]),
            bytes_per_second=0.0,
            waiting=0,
            units=sum(1 for owner in self.owners.values() if owner == incarnation),
            partitions=_costliest(served.wholes.items()),
            subscriptions=_costliest(served.parts),
        )

    # The repositories.

    async def live(self) -> list[LiveForwarder]:
        self.statements += 1
        return [
            LiveForwarder(
                incarnation,
                "subscribe",
                "",
                1.0,
                self.load(incarnation),
                self.now_s - process.started_s,
                4.0,
            )
            for incarnation, process in self.processes.items()
        ]

    async def owned(self, topics: Collection[TopicKey]) -> Mapping[Unit, bytes | None]:
        self.statements += 1
        return {unit: owner for unit, owner in self.owners.items() if unit[:2] in topics}

    async def listing(self) -> list[Hint]:
        self.statements += 1
        return [
            Hint(unit, where, reason, self.now_s - made_s)
            for unit, (where, reason, made_s) in sorted(self.hints.items())
        ]

    async def replace(
        self, lock: Lock, put: Mapping[Unit, tuple[bytes, str]], remove: Iterable[Unit] = ()
    ) -> None:
        decision = Decision(self.now_s, {unit: where for unit, (where, _) in put.items()})
        decision.removed = set(remove)
        decision.kinds = [reason.split(":")[0] for _, reason in put.values()]
        for unit in decision.removed:
            del self.hints[unit]
        for unit, (where, reason) in put.items():
            assert where in self.processes
            self.hints[unit] = (where, reason, self.now_s)
        self.decisions.append(decision)

    async def prune(self, lock: Lock) -> int:
        dead = [unit for unit, hint in self.hints.items() if hint[0] not in self.processes]
        for unit in dead:
            del self.hints[unit]
        return len(dead)


def _serve(flow: Flow, count: float) -> None:
    growth = flow.per_second - count
    flow.backlog += growth
    flow.served += _WEIGHT * (count - flow.served)
    flow.growth += _WEIGHT * (growth - flow.growth)


def _costliest(flows: Iterable[tuple[Unit, list[Flow]]]) -> tuple[UnitLoad, ...]:
    rates = [(sum([each.served for each in some]), unit, some) for unit, some in flows]
    rates.sort(key=lambda each: -round(each[0], 1))
    return tuple(
        UnitLoad.of(
            unit,
            per_second=rate,
            backlog=int(sum([each.backlog + each.unacked for each in some])),
            growth_per_s=sum([each.growth for each in some]),
            waiting=0,
        )
        for rate, unit, some in rates[:MAX_UNITS]
        if rate >= 0.05
    )
