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
from tests.simulation.clock import SimClock
from tests.simulation.coverage import Coverage
from tests.simulation.disk import SimDisk
from tests.simulation.faults import Faults
from tests.simulation.network import SimNetwork
from tests.simulation.node import SimNode
from tests.simulation.options import MS, SECOND, Options, draw
from tests.simulation.oracle import Oracle, Violation
from tests.simulation.power_loss_files import PowerCut
from tests.simulation.scheduler import Scheduler
from tests.simulation.workload import Administrator, Appender, Readers

CONVERGE_US = 20 * SECOND
STEP_US = 100 * MS


@dataclass(slots=True)
class Result:
    """What a run came to."""

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
        ids = range(1, self.options.nodes + 1)
        insane = self._insane(ids)
        self.clocks = {
            n: SimClock(self.scheduler.fork(f"clock {n}"), self.options.drift_ppm, n in insane)
            for n in ids
        }
        self.disks = {
            n: SimDisk(
                self.scheduler.fork(f"disk {n}"),
                self.coverage,
                20 if n == self.options.slow_node else 1,
            )
            for n in ids
        }
        self.oracle = Oracle(self.scheduler, self.coverage, self.options.group, self.disks)
        self.nodes: dict[int, SimNode] = {}
        self._lives = dict.fromkeys(ids, 0)
        queues = [bytes([n]) * 21 + bytes(4) for n in range(1 + self.options.clients // 2)]
        self.admin = Administrator(self, queues)
        self.clients = [
            Appender(self, n, queues[n % len(queues)]) for n in range(self.options.clients)
        ]
        self.readers = Readers(self, queues)
        self.faults = Faults(self)
        for n in ids:
            self.start_node(n)

    def _insane(self, ids: range) -> list[int]:
        if not self.options.clock_jump_every_us:
            return []
        return self._rng.sample(ids, 1)

    # -- phases --------------------------------------------------------------------------------

    def run(self) -> int:
        """Both phases; how long convergence took. Raises Violation."""
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
        self.admin.issuing = False
        for client in self.clients:
            client.issuing = False
        self.network.heal()
        for n in self._lives:
            if not self.alive(n):
                self.start_node(n)
        for a in self._lives:
            for b in self._lives:
                if a < b:
                    self.faults.reconnect(a, b)

    def _converge(self, until_us: int) -> None:
        while self.scheduler.now < until_us:
            self.scheduler.run_until(self.scheduler.now + STEP_US)
            if self._converged():
                return
        applied = [node.group.machine.applied for node in self.nodes.values()]
        leaders = [node.group.replica.leader for node in self.nodes.values()]
        busy = sum(not client.idle for client in self.clients) + (not self.admin.idle)
        raise Violation(f"no convergence: applied {applied}, leaders {leaders}, busy {busy}")

    def _converged(self) -> bool:
        if not self.admin.idle or not all(client.idle for client in self.clients):
            return False
        machines = [node.group.machine for node in self.nodes.values()]
        if any(machine.applied != self.oracle.instances for machine in machines):
            return False
        if len({machine.state_digest() for machine in machines}) != 1:
            raise Violation("replicas that applied the same instances are not equal")
        return sum(node.group.replica.leading for node in self.nodes.values()) == 1

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
        if self.options.checkpoint_every_us:
            self._checkpoint_later(node)
        for other in self._lives:
            if other != n and self.alive(other):
                self.faults.reconnect(n, other)

    def _tick_later(self, node: SimNode, delay_us: int) -> None:
        self.for_node(node, delay_us, "tick", self._tick, node)

    def _tick(self, node: SimNode) -> None:
        self._tick_later(node, node.clock.true_delay_us(self.options.tick_us))
        node.tick()

    def _checkpoint_later(self, node: SimNode) -> None:
        mean = self.options.checkpoint_every_us
        delay = mean // 2 + self._rng.randrange(mean)
        self.for_node(node, delay, "checkpoint", self._checkpoint, node)

    def _checkpoint(self, node: SimNode) -> None:
        self._checkpoint_later(node)
        try:
            node.checkpoint()
        except PowerCut:
            self.faults.crash(node.id, power=True)

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


def harsh_options(seed: int) -> Options:
    """Those of a seed, with every kind of fault in them."""
    drawn = fork_options(seed)
    return replace(
        drawn,
        crash_every_us=drawn.crash_every_us or 300 * MS,
        power_share=0.7,
        partition_every_us=drawn.partition_every_us or 300 * MS,
        flap_every_us=drawn.flap_every_us or 150 * MS,
        clock_jump_every_us=drawn.clock_jump_every_us or 300 * MS,
        checkpoint_every_us=drawn.checkpoint_every_us or 300 * MS,
        read_every_us=5 * MS,
    )
