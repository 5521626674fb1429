"""The faults: crashes, power cuts, partitions, pauses, broken connections, jumping clocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.simulation.options import MS

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster


class Faults:
    """Draws faults at the intervals of the run's options until the cluster is calm."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._rng = cluster.scheduler.fork("faults")
        options = cluster.options
        self._every(options.crash_every_us, "crash", self._crash_some)
        self._every(options.partition_every_us, "partition", self._partition)
        self._every(options.flap_every_us, "flap", self._flap)
        self._every(options.pause_every_us, "pause", self._pause)
        self._every(options.clock_jump_every_us, "clock", self._jump)
        self._every(options.damage_every_us, "damage", self._damage)

    def _every(self, mean_us: int, label: str, fault: Callable[[], None]) -> None:
        if not mean_us:
            return

        def again() -> None:
            if not self._cluster.calm:
                fault()
                schedule()

        def schedule() -> None:
            delay = mean_us // 2 + self._rng.randrange(mean_us)
            self._cluster.scheduler.after(delay, label, again)

        schedule()

    # -- nodes ---------------------------------------------------------------------------------

    def _crash_some(self) -> None:
        cluster, rng = self._cluster, self._rng
        power = rng.random() < cluster.options.power_share
        if rng.random() < cluster.options.crash_all:
            victims = list(cluster.ids)
            if power:
                cluster.coverage.hit("all nodes lost power at once")
                if cluster.scheduler.now - cluster.oracle.acked_us < 10 * MS:
                    cluster.coverage.hit("all nodes lost power within 10 ms of an acknowledgement")
        else:
            victims = [self._leader_or_any()]
        for n in victims:
            if cluster.alive(n):
                self.crash(n, power=power)

    def _leader_or_any(self) -> int:
        leaders = [n for n in self._cluster.ids if self._cluster.nodes[n].leading]
        if leaders and self._rng.random() < 0.4:
            return self._rng.choice(leaders)
        return self._rng.choice(self._cluster.ids)

    def crash(self, n: int, *, power: bool) -> None:
        """End this life of a node; it starts again after a while."""
        cluster, rng = self._cluster, self._rng
        node = cluster.nodes[n]
        assert node.alive
        led = node.group.replica.state.leadership
        if led is not None and any(not entry.chosen for entry in led.open.values()):
            cluster.coverage.hit("leader crashed with instances open")
        node.alive = False
        if not cluster.reconfigurer.idle:
            cluster.coverage.hit("change of membership during a crash")
        if power:
            node.disk.cut_power()
        if power or rng.random() >= cluster.options.quiet_death:
            for other in cluster.ids:
                if other != n:
                    cluster.network.break_link(n, other)
                    self._tell_lost(other, n)
        away = rng.choice((60, 400, 1000)) * MS
        cluster.scheduler.after(20 * MS + rng.randrange(away), "restart", cluster.restart, n)

    def _damage(self) -> None:
        """A node crashes, and a part of what it had on its disk is gone."""
        cluster = self._cluster
        n = self._leader_or_any()
        if n in cluster.held_down or not cluster.may_lose(n):
            return
        if cluster.alive(n):
            self.crash(n, power=True)
        self.damage(n)

    def damage(self, n: int) -> None:
        """A part of the log of a node that is down is gone."""
        assert not self._cluster.alive(n)
        self._cluster.disks[n].lose()
        oracle = self._cluster.oracle
        oracle.votes.lost(n, oracle.reference.membership.version)

    def _pause(self) -> None:
        self.pause(self._leader_or_any(), self._rng.randrange(600 * MS))

    def pause(self, n: int, duration_us: int) -> None:
        """Pause a node for a while; then it handles all that came meanwhile."""
        node = self._cluster.nodes[n]
        node.paused_until = self._cluster.scheduler.now + duration_us
        if node.leading:
            self._cluster.coverage.hit("leader paused")

    def _jump(self) -> None:
        for clock in self._cluster.clocks.values():
            if clock.insane:
                clock.jump()
                self._cluster.coverage.hit("clock jumped")

    # -- connections ---------------------------------------------------------------------------

    def reconnect(self, a: int, b: int) -> None:
        """Make a new connection between two nodes."""
        self._cluster.network.break_link(a, b)
        for at, other in ((a, b), (b, a)):
            node = self._cluster.nodes.get(at)
            if node is not None:
                delay = self._rng.randrange(5 * MS)
                self._cluster.for_node(node, delay, "connected", node.connected, other)

    def _tell_lost(self, at: int, other: int) -> None:
        node = self._cluster.nodes[at]
        delay = self._rng.randrange(3 * MS)
        self._cluster.for_node(node, delay, "lost", node.lost, other)

    def _flap(self) -> None:
        """Cut connections of one node, all or one; a little later they are back."""
        cluster = self._cluster
        victim = self._leader_or_any()
        network = cluster.network
        others = [n for n in cluster.ids if n != victim and not network.is_cut(n, victim)]
        if others and self._rng.random() < 0.5:
            others = [self._rng.choice(others)]
        for other in others:
            network.break_link(victim, other)
            self._tell_lost(other, victim)
            self._tell_lost(victim, other)
            network.cut(victim, other)
            network.cut(other, victim)
        cluster.coverage.hit("connections of a live node broken")
        delay = self._rng.randrange(150 * MS)
        cluster.scheduler.after(delay, "back", self._unflap, victim, others)

    def _unflap(self, victim: int, others: list[int]) -> None:
        for other in others:
            self._cluster.network.mend(victim, other)
            self.reconnect(victim, other)

    # -- partitions ----------------------------------------------------------------------------

    def _partition(self) -> None:
        """Make the network whole, or cut something: whole nodes, one direction, or all but
        one bridge.
        """
        cluster, rng = self._cluster, self._rng
        ids = list(cluster.ids)
        broken = [(a, b) for a in ids for b in ids if a < b and cluster.network.is_cut(a, b)]
        cluster.network.heal()
        for a, b in broken:
            self.reconnect(a, b)
        if broken and rng.random() < 0.6:
            return
        kind = rng.choice(("minority", "send", "receive", "bridge", "leader"))
        minority = rng.sample(ids, rng.randint(1, (len(ids) - 1) // 2))
        if kind == "leader":
            leaders = [n for n in ids if cluster.nodes[n].leading]
            minority = leaders[:1] or minority
        bridge = rng.choice(ids)
        for a in ids:
            for b in ids:
                if a != b and self._cuts(kind, a, b, minority, bridge):
                    cluster.network.cut(a, b)
        names = {"bridge": "bridge partition", "send": "one-way partition"}
        names["receive"] = names["send"]
        cluster.coverage.hit(names.get(kind, "minority partitioned"))
        if rng.random() < 0.4:
            self._break_cut_links(ids)

    def _cuts(self, kind: str, a: int, b: int, minority: list[int], bridge: int) -> bool:
        """Return whether messages from a to b are cut."""
        if kind == "send":
            return a in minority and b not in minority
        if kind == "receive":
            return b in minority and a not in minority
        if kind == "bridge":
            return bridge not in (a, b) and (a % 2 != b % 2 or len(self._cluster.ids) == 3)
        return (a in minority) != (b in minority)

    def _break_cut_links(self, ids: list[int]) -> None:
        for a in ids:
            for b in ids:
                if a < b and self._cluster.network.is_cut(a, b):
                    self._cluster.network.break_link(a, b)
                    self._tell_lost(a, b)
                    self._tell_lost(b, a)
