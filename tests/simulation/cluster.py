"""A whole simulated cluster: nodes, disks, clocks, network, clients and faults of one seed.

A run has two phases. *Safety*: every fault of its options may happen, and the oracle checks each
step. *Liveness*: faults stop, what is down comes back, and the cluster must converge within bounded
virtual time: all open operations answered, every replica equal, new appends accepted.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from store_nodes.errors import QueueNotFound
from store_nodes.machine.machine import Machine
from store_nodes.membership import REPAIR
from tests.simulation.clock import SimClock
from tests.simulation.coverage import Coverage
from tests.simulation.disk import SimDisk
from tests.simulation.faults import Faults
from tests.simulation.network import SimNetwork
from tests.simulation.node import SimNode
from tests.simulation.options import MS, SECOND, Options, draw
from tests.simulation.oracle import Oracle, Violation
from tests.simulation.reconfigurer import Reconfigurer
from tests.simulation.scheduler import Scheduler
from tests.simulation.workload import Administrator, Appender, Readers

CONVERGE_US = 20 * SECOND
STEP_US = 100 * MS


@dataclass(slots=True)
class Result:
    """The result of a run."""

    seed: int
    failure: str | None
    trace: str
    events: int
    instances: int
    acked: int
    ballots: int
    converged_us: int
    coverage: dict[str, int] = field(default_factory=dict)


class Cluster:
    """One run. Parts reach each other through it."""

    def __init__(self, seed: int, options: Options | None = None) -> None:
        self.scheduler = Scheduler(seed)
        self.options = options or draw(self.scheduler.fork("options"))
        self.coverage = Coverage()
        self.calm = False
        self.successors: dict[bytes, bytes] = {}
        self._sent: dict[tuple[int, int], int] = {}
        self.network = SimNetwork(self.scheduler, self.options, self._deliver)
        self._rng = self.scheduler.fork("cluster")
        self.ids: list[int] = []
        """Every node that has ever started, but those retired."""
        self._insane = self._rng.randint(1, self.options.nodes)
        self.clocks: dict[int, SimClock] = {}
        self.disks: dict[int, SimDisk] = {}
        self.oracle = Oracle(
            self.scheduler,
            self.coverage,
            self.options.group,
            self.options.membership,
            self.disks,
            self.clocks,
            lambda n: self.nodes[n].group.replica.state.acceptor.chosen,
        )
        self.nodes: dict[int, SimNode] = {}
        self._lives: dict[int, int] = {}
        self.spares = self.options.spares
        self.held_down: set[int] = set()
        """Dead until they are removed, or the faults are over."""
        self.retired: set[int] = set()
        self.last_leader = 0
        queues = [bytes([n]) * 21 + bytes(4) for n in range(1 + self.options.clients // 2)]
        self.admin = Administrator(self, queues)
        self.clients = [
            Appender(self, n, queues[n % len(queues)]) for n in range(self.options.clients)
        ]
        self.readers = Readers(self, queues)
        self.reconfigurer = Reconfigurer(self)
        self.faults = Faults(self)
        for n in range(1, self.options.nodes + 1):
            self._equip(n)
        for n in self.ids:
            self.start_node(n)

    def _equip(self, n: int) -> None:
        """Make a machine for a new node."""
        options = self.options
        insane = bool(options.clock_jump_every_us) and n == self._insane
        self.clocks[n] = SimClock(self.scheduler.fork(f"clock {n}"), options.drift_ppm, insane)
        slowness = 20 if n == options.slow_node else 1
        self.disks[n] = SimDisk(self.scheduler.fork(f"disk {n}"), self.coverage, slowness)
        self._lives[n] = 0
        self.ids.append(n)

    # -- phases --------------------------------------------------------------------------------

    def run(self) -> int:
        """Run both phases; returns how long convergence took. Raises Violation."""
        self.scheduler.run_until(self.options.safety_us)
        self._heal()
        healed = self.scheduler.now
        self._converge(healed + CONVERGE_US)
        for client in self.clients:
            client.issue(2)
        self._converge(self.scheduler.now + CONVERGE_US)
        return self.scheduler.now - healed

    def _heal(self) -> None:
        self.calm = self.network.calm = True
        self.admin.issuing = self.reconfigurer.issuing = False
        for client in self.clients:
            client.issuing = False
        self.network.heal()
        self.held_down = set(self.retired)
        for n in self.ids:
            if not self.alive(n):
                self.start_node(n)
        for a in self.ids:
            for b in self.ids:
                if a < b:
                    self.faults.reconnect(a, b)

    def _converge(self, until_us: int) -> None:
        while self.scheduler.now < until_us:
            self.scheduler.run_until(self.scheduler.now + STEP_US)
            if self._converged():
                return
        applied = {n: self.nodes[n].group.machine.applied for n in self.ids}
        leaders = {n: self.nodes[n].group.replica.state.leader for n in self.ids}
        busy = [type(one).__name__ for one in self._clients() if not one.idle]
        raise Violation(
            f"no convergence: applied {applied} of {self.oracle.instances}, leaders {leaders}, "
            f"damaged {self.damaged()}, busy {busy}, {self.oracle.reference.membership}"
        )

    def _clients(self) -> list[Appender | Administrator | Reconfigurer]:
        return [*self.clients, self.admin, self.reconfigurer]

    def members(self) -> list[SimNode]:
        """Return the nodes of the membership that the log says."""
        return [self.nodes[m.node] for m in self.oracle.reference.membership.members]

    def _converged(self) -> bool:
        if self.damaged() or not all(client.idle for client in self._clients()):
            return False
        members = self.members()
        machines = [node.group.machine for node in members]
        if any(machine.applied != self.oracle.instances for machine in machines):
            return False
        if len({machine.state_digest() for machine in machines}) != 1:
            raise Violation("replicas that applied the same instances are not equal")
        return sum(node.leading for node in members) == 1

    # -- nodes ---------------------------------------------------------------------------------

    def alive(self, n: int) -> bool:
        node = self.nodes.get(n)
        return node is not None and node.alive

    def start_node(self, n: int) -> None:
        assert not self.alive(n)
        self._lives[n] += 1
        node = self.nodes[n] = SimNode(self, n, self._lives[n])
        self.for_node(node, 0, "start", node.pump)
        self._tick_later(node, self._rng.randrange(self.options.tick_us))
        for other in self.ids:
            if other != n and self.alive(other):
                self.faults.reconnect(n, other)

    def add_node(self) -> int:
        """Add a node with an empty disk, which is no member yet."""
        assert self.spares > 0
        self.spares -= 1
        n = max(self._lives) + 1
        self._equip(n)
        self.start_node(n)
        return n

    def damaged(self) -> list[int]:
        """Return the members that may not vote, or voted before and are not whole again."""
        return [
            member.node
            for member in self.oracle.reference.membership.members
            if self.disks[member.node].damaged or member.labels.get(REPAIR)
        ]

    def may_lose(self, n: int) -> bool:
        """Return whether the group survives the loss of this node's log.

        It does when enough others are whole and have a mark of the latest change, and no further
        change is on its way that could make a damaged node a voter.
        """
        membership = self.oracle.reference.membership
        if any(m.labels.get(REPAIR) and not self.disks[m.node].damaged for m in membership.members):
            return False
        since = self.oracle.changed_at
        whole = {
            v
            for v in {*membership.voters} - {*self.damaged()} - self.held_down - {n}
            if self.disks[v].marked >= since
        }
        return self.reconfigurer.idle and len(whole) >= membership.majority

    def kill_for_good(self, n: int) -> bool:
        """Let it die and stay dead while faults happen; False if too few would be left."""
        membership = self.oracle.reference.membership
        left = {*membership.voters} - {*self.damaged()} - self.held_down - {n}
        if len(left) < membership.majority:
            return False
        self.held_down.add(n)
        if self.alive(n):
            self.faults.crash(n, power=True)
        return True

    def retire_later(self, n: int) -> None:
        """A removed node may run on for a while."""
        self.scheduler.after(self._rng.randrange(800 * MS), "retire", self._retire, n)

    def _retire(self, n: int) -> None:
        self.ids.remove(n)
        self.retired.add(n)
        self.held_down.add(n)
        if self.alive(n):
            self.faults.crash(n, power=False)

    def _tick_later(self, node: SimNode, delay_us: int) -> None:
        self.for_node(node, delay_us, "tick", self._tick, node)

    def _tick(self, node: SimNode) -> None:
        self._tick_later(node, node.clock.true_delay_us(self.options.tick_us))
        node.tick()

    def restart(self, n: int) -> None:
        if not self.alive(n) and n not in self.held_down:
            self.start_node(n)

    def for_node(
        self, node: SimNode, delay_us: int, label: str, call: Callable[..., None], *args: Any
    ) -> None:
        """Call after a delay if this life of the node goes on; a paused node does it when it
        wakes."""
        self.scheduler.after(delay_us, label, self._if_awake, node, label, call, args)

    def _if_awake(
        self, node: SimNode, label: str, call: Callable[..., None], args: tuple[Any, ...]
    ) -> None:
        if not node.alive:
            return
        if node.paused_until > self.scheduler.now:
            delay = node.paused_until - self.scheduler.now
            self.scheduler.after(delay, label, self._if_awake, node, label, call, args)
            return
        call(*args)

    def _deliver(self, to: int, source: int, payload: bytes) -> None:
        node = self.nodes.get(to)
        if node is None or not node.alive:
            return
        if node.paused_until > self.scheduler.now:
            self._if_awake(node, "late", node.receive, (source, payload))
        else:
            node.receive(source, payload)

    def halted(self, node: SimNode, reason: str) -> None:
        raise Violation(f"node {node.id} halted: {reason}")

    # -- clients -------------------------------------------------------------------------------

    def to_node(self, client: int, n: int, label: str, request: Callable[..., None]) -> None:
        """A client's request: it may get lost, but what arrives does so in order."""
        if not self.calm and self._rng.random() < self.options.loss:
            return
        now = self.scheduler.now
        at = max(now + self.network.delay(), self._sent.get((client, n), 0))
        self._sent[(client, n)] = at
        self.scheduler.after(at - now, label, self._request, n, label, request)

    def _request(self, n: int, label: str, request: Callable[..., None]) -> None:
        node = self.nodes.get(n)
        if node is not None:
            self._if_awake(node, label, node.call, (request,))

    def to_client(self, label: str, answer: Callable[..., None], *args: Any) -> None:
        if not self.calm and self._rng.random() < self.options.loss:
            return
        self.scheduler.after(self.network.delay(), label, answer, *args)

    def read_done(self, token: int, machine: Machine) -> None:
        def end_of(queue: bytes) -> int:
            try:
                return machine.offsets(queue).end
            except QueueNotFound:
                return 0

        self.readers.done(token, end_of)

    def read_failed(self, token: int) -> None:
        self.readers.failed(token)


def fork_options(seed: int) -> Options:
    """The options a seed draws, to look at or to change one."""
    return draw(random.Random(f"{seed}/options"))


def harsh_options(seed: int, *, members: bool = False) -> Options:
    """Return the options of a seed, with every kind of fault in them.

    Changes of `members` and damage are in them only if asked: they slow the rest down.
    """
    drawn = fork_options(seed)
    return replace(
        drawn,
        crash_every_us=drawn.crash_every_us or 300 * MS,
        power_share=0.7,
        partition_every_us=drawn.partition_every_us or 300 * MS,
        flap_every_us=drawn.flap_every_us or 150 * MS,
        clock_jump_every_us=drawn.clock_jump_every_us or 300 * MS,
        read_every_us=5 * MS,
        member_every_us=(drawn.member_every_us or 150 * MS) if members else 0,
        damage_every_us=(drawn.damage_every_us or 300 * MS) if members else 0,
    )
