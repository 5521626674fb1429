"""The faults of a run. Each kind of fault has a clock of its own.

Faults at the same time never take more than the promises allow: one node's disk may rot, and while
it is damaged no other disk is wiped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from store_nodes.checkpoint.store import MANIFESTS
from store_nodes.node.repair import NO_SEGMENT
from store_nodes.wal.identity import IDENTITY_NAME
from tests.simulation.kernel import network
from tests.simulation.kernel.world import SECOND, World
from tests.simulation.store.clients import READER, Load
from tests.simulation.store.cluster import DATA, Cluster, host_of
from tests.simulation.store.oracle import Violation

MS = 1000
CLOCK_STEP_ALONE_S = (-30, -2, -1, 1, 2, 30)
CLOCK_STEP_S = (*CLOCK_STEP_ALONE_S, 3600)
CLOCK_COUNTS_S = 5
"""A clock that was set right counts for a while as it was: a leader takes what it heard in the last
two seconds, and a message may be late."""
LAG_S = (3, 5, 8)

DEPOSE_EVERY_S = 1
DEPOSED_S = 2

SOLE_EVERY_S = 0.5
CHECKPOINTED_S = 8
"""The most seconds in which a checkpoint has to count of the node that is to be the sole one."""
SOLE_ACKED = 3
ELECTED_S = 3
"""The least seconds in which the sole node goes on without the leader before it."""


class Dying(NamedTuple):
    """The times of a source's death after an install is known to be needed, and of its absence."""

    from_s: float
    until_s: float
    least_s: float
    most_s: float


DYING = Dying(0, 2, 1, 7)
DYING_OF_HISTORY = {
    # An image is asked for half a second after it is known to be needed: it is given before.
    "passed": Dying(0.6, 0.9, 12, 15),
    # It is not.
    "behind": Dying(0, 0.4, 14, 18),
}
"""The times for each value of `Options.history`."""


class Sole(NamedTuple):
    """Three nodes, of which one will have to know alone what was acknowledged."""

    absent: int
    """The node that is away while the others go on."""
    others: frozenset[int]
    """The one that does not lead starts again from a checkpoint that has just come to count, and
    goes on with `absent`. The leader dies at the same time, and is away for longer."""
    acked: int
    """Appends that were acknowledged when `absent` left."""


class Faults:
    """Faults happen from `start` to `heal`."""

    def __init__(self, cluster: Cluster, load: Load) -> None:
        self.cluster = cluster
        self.load = load
        self.world: World = cluster.world
        self.network = network.of(self.world)
        self.healed = False
        self._installing: dict[int, int] = {}
        """Node → the source that dies meanwhile."""
        self._deposed_until_us = 0
        self._sole: Sole | None = None
        self._soles = 0
        """The number of times that one node was left."""
        self._lagging = False
        """Two nodes lag, one after the other; no third may."""
        self._ahead_until_us: dict[int, int] = {}
        """The moments until which the clocks of nodes that were far ahead count as such."""
        cluster.listeners.append(self._on_log)

    def start(self) -> None:
        options = self.cluster.options
        for every_s, fault in (
            (options.crash_every_s, self._crash),
            (options.lag_every_s, self._lag_both if options.history == "behind" else self._lag),
            (SOLE_EVERY_S if options.soles else 0, self._leave_sole),
            (DEPOSE_EVERY_S if options.history == "deposed" else 0, self._depose),
            (options.stop_every_s, self._stop),
            (options.pause_every_s, self._pause),
            (options.partition_every_s, self._partition),
            (options.reset_every_s, self._reset),
            (options.clock_every_s, self._step_clock),
            (options.rot_every_s, self._rot),
            (options.stray_every_s, self._stray),
        ):
            if every_s:
                self._again(every_s, fault)
        if options.replace:
            at_us = int(self.world.rng.random() * options.safety_s * SECOND / 2)
            self.world.after(at_us, self._lose)
        for node in self.cluster.ids:
            machine = self.cluster.machine(node)
            machine.files.stall = options.stall
            machine.files.stall_us = 400 * MS
            machine.files.on_named = self._on_named(node)
            machine.rate_ppm = self.world.below(2 * options.drift_ppm + 1) - options.drift_ppm
        if options.slow_disk > 1:
            self.cluster.machine(self._any()).files.slowness = options.slow_disk
        if options.slow_link_ms:
            one, other = host_of(self._any()), host_of(self._any())
            self.network.slow[one, other] = options.slow_link_ms * MS

    def heal(self) -> None:
        """Nothing goes wrong from now on, and what went wrong is mended."""
        self.healed = True
        self.network.heal()
        self.network.slow.clear()
        if self.cluster.creeping in self.cluster.running:
            # It starts below with a copy rate like the others'.
            self.cluster.kill(self.cluster.creeping, power=False)
        self.cluster.creeping = None
        for node in self.cluster.ids:
            machine = self.cluster.machine(node)
            machine.wall_skew_us = 0
            files = machine.files
            files.stall, files.slowness, files.strays = 0.0, 1, 0
            files.making_us.clear()
            process = self.cluster.running.get(node)
            if process is not None:
                process.doom = None
                process.slowness = 1
                process.paused_until_us = 0
            self.cluster.start(node)
            if files.stalled_calls:
                self.world.hit("disk stalled")
            if files.torn:
                self.world.hit("write torn")

    # -- when ----------------------------------------------------------------------------------

    def _again(self, every_s: float, fault: Callable[[], None]) -> None:
        def strike() -> None:
            if not self.healed:
                fault()
                self._again(every_s, fault)

        self.world.after(int(self.world.rng.expovariate(1 / every_s) * SECOND), strike)

    def _any(self) -> int:
        return self.world.rng.choice(self.cluster.ids)

    def _later(self, seconds: float, mend: Callable[[], object]) -> None:
        self.world.after(int(seconds * SECOND), lambda: None if self.healed else mend())

    def _away_s(self) -> float:
        if self.world.chance(1 / 3):
            return 0.05
        return self.world.rng.random() * self.cluster.options.away_s

    # -- kinds of faults -----------------------------------------------------------------------

    def _crash(self) -> None:
        options = self.cluster.options
        nodes = [self._any()]
        if self.world.chance(options.crash_all):
            nodes = list(self.cluster.ids)
            self.world.hit("all nodes crashed at once")
        power = self.world.chance(options.power_share)
        for node in nodes:
            process = self.cluster.running.get(node)
            if process is None:
                continue
            if len(nodes) == 1 and self.world.chance(options.doom_share):
                self._doom(node, power)
                continue
            self.world.note("crash", node, power)
            self.world.hit("power cut" if power else "killed")
            self.cluster.kill(node, power=power)
            self._later(self._away_s(), lambda node=node: self._back(node))

    def _doom(self, node: int, power: bool) -> None:
        """Make a node end at one of its next effects on the disk."""
        process = self.cluster.running[node]
        process.doom = self.world.below(60)
        process.doom_is_power = power
        self.world.hit("power cut at an effect" if power else "killed at an effect")
        self.cluster.wanted.discard(node)
        self._later(0.5 + self._away_s(), lambda: self._back(node))

    def _lose(self) -> None:
        """A disk is gone. Its node is first started as if nothing were: its peers must refuse it;
        then another takes its place."""
        node = self.cluster.damaged or self._any()
        self.world.note("lost", node)
        self.world.hit("disk lost")
        new = self.cluster.lose(node)
        # Not at once: its process has not ended yet, and would be what is started.
        self.world.after(SECOND // 10, self.cluster.start, node)

        def replaced() -> None:
            self.cluster.kill(node, power=True)
            self.cluster.start(new)
            self.load.replace(node, new)

        self.world.after(SECOND + self.world.below(4 * SECOND), replaced)

    def _back(self, node: int) -> None:
        if node not in self.cluster.ids:
            return
        process = self.cluster.running.get(node)
        if process is not None:
            process.doom = None
        self.cluster.start(node)

    def _lag(self) -> None:
        """Take a node away until the others have forgotten the values that it lacks."""
        if len(self.cluster.running) < 3 or self._installing:
            return
        hoarder = self.cluster.options.hoarder
        node = self.world.rng.choice([node for node in self.cluster.ids if node != hoarder])
        self._goes(node)
        self._later(self.world.rng.choice(LAG_S), lambda: self._back(node))

    def _goes(self, node: int) -> None:
        self.world.note("lag", node)
        self.world.hit("away for long")
        self.cluster.kill(node, power=self.world.chance(0.3))

    def _lag_both(self) -> None:
        """Let two nodes lag, one after the other: the first still copies when the second installs.

        The third has everything. It dies before it gives anything, until the others need to go on
        without it, so that the second needs the messages that it had before.
        """
        if self._lagging or len(self.cluster.running) < 3:
            return
        self._lagging = True
        first, second = self.world.rng.sample(self.cluster.ids, 2)
        creeping = self.cluster.creeping
        if second == creeping:
            # It stays slow until it starts again: one node at a time is.
            first, second = second, first
        elif creeping is not None and creeping in self.cluster.ids:
            first = creeping
        self.cluster.creeping = first
        self._goes(first)

        def turn() -> None:
            self._back(first)
            if second in self.cluster.ids:
                self._goes(second)
                self.world.hit("lagged behind who lags")
            self._later(self.world.rng.choice(LAG_S), end)

        def end() -> None:
            self._lagging = False
            self._back(second)

        self._later(self.world.rng.choice(LAG_S), turn)

    def _leave_sole(self) -> None:
        """Take one node away, so that a majority needs both of the others.

        As soon as a checkpoint counts from which the follower of the two would start, both die. It
        and the node that was away go on without the leader. Values that were accepted and not
        applied yet when the checkpoint was drafted are nowhere else: its start has to find them in
        its log, and some of them in an earlier segment. The two are far from each other, so that
        the follower hears late which values are chosen.
        """
        if self._sole is not None or self._soles == self.cluster.options.soles:
            return
        if len(self.cluster.running) < 3 or self.cluster.leader not in self.cluster.ids:
            return
        absent = self.world.rng.choice([i for i in self.cluster.ids if i != self.cluster.leader])
        others = frozenset(self.cluster.ids) - {absent}
        self._sole = mine = Sole(absent, others, self.load.oracle.acked)
        self.world.note("sole", absent)
        self.cluster.kill(absent, power=self.world.chance(0.3))
        one, other = sorted(map(host_of, others))
        slow, delay_us = self.network.slow, (50 + self.world.below(150)) * MS
        added = [pair for pair in ((one, other), (other, one)) if pair not in slow]
        slow.update(dict.fromkeys(added, delay_us))

        def end() -> None:
            for pair in added:
                del slow[pair]
            if self._sole is mine:
                self._sole = None
                self._back(absent)

        self._later(CHECKPOINTED_S, end)

    def _on_named(self, node: int) -> Callable[[str, set[str]], None]:
        """Return what is called when names of files of this node are durable."""

        def named(directory: str, names: set[str]) -> None:
            mine = self._sole
            if mine is None or self.healed or names.isdisjoint(MANIFESTS):
                return
            if node not in mine.others or node == self.cluster.leader:
                return
            acked = self.load.oracle.acked - mine.acked
            if acked >= SOLE_ACKED and node in self.cluster.reaching_back:
                self._sole = None
                self.world.after(self.world.below(10 * MS), self._end_sole, mine, node)

        return named

    def _end_sole(self, mine: Sole, sole: int) -> None:
        if self.healed:
            return
        (other,) = mine.others - {sole}
        running = self.cluster.running
        if sole in running and other in running and mine.absent not in running:
            self._soles += 1
            self.world.hit("ended as its checkpoint counted")
            for node in (sole, other):
                self.world.note("ends", node)
                self.cluster.kill(node, power=self.world.chance(0.5))
        self._back(mine.absent)
        self._later(self.world.rng.random() / 2, lambda: self._back(sole))
        self._later(ELECTED_S + self._away_s(), lambda: self._back(other))

    def _stop(self) -> None:
        node = self._any()
        self.world.hit("stopped")
        self.cluster.stop(node)
        self._later(self._away_s(), lambda: self._back(node))

    def _pause(self) -> None:
        process = self.cluster.running.get(self._any())
        if process is not None:
            self.world.hit("process paused")
            process.pause(self.world.below(4 * SECOND))

    def _partition(self) -> None:
        """One node can't be reached, or reaches none, or neither; or one link fails."""
        one = host_of(self._any())
        kind = self.world.below(4)
        hosts = list(self.world.machines)
        if self.world.chance(0.5):
            # Clients go on with a node that its peers do without.
            hosts = [host_of(node) for node in self.cluster.ids]
        if kind == 3:
            hosts = [host_of(self._any())]
        self.world.note("partition", kind, one)
        self.world.hit(("cut off", "unheard", "deaf", "one link cut")[kind])
        pairs = []
        for host in hosts:
            if kind != 2:
                pairs.append((one, host))
            if kind != 1:
                pairs.append((host, one))
        self._block(pairs, self.world.rng.random() * 6)

    def _block(self, pairs: list[tuple[str, str]], seconds: float) -> None:
        for source, target in pairs:
            self.network.block(source, target)

        def mend() -> None:
            for source, target in pairs:
                self.network.heal(source, target)

        self._later(seconds, mend)

    def _depose(self) -> None:
        """Cut off a leader, and a reader with it, while the others elect another."""
        one = self._any()
        now_us = self.world.now_us
        if len(self.cluster.running) < 3 or now_us < self._deposed_until_us:
            return
        # As long again it takes until all know who leads.
        self._deposed_until_us = now_us + 2 * DEPOSED_S * SECOND
        self.world.note("deposed", one)
        self.world.hit("deposed unheard")
        pairs = []
        for node in self.cluster.ids:
            if node != one:
                for host in (READER, host_of(one)):
                    pairs += [(host, host_of(node)), (host_of(node), host)]
                # They hear at once that it is gone, and elect another; it misses them later.
                self.network.reset_between(host_of(one), host_of(node))
        self._block(pairs, DEPOSED_S)

    def _reset(self) -> None:
        ends = list(self.network.connections)
        if ends:
            self.world.hit("connection reset")
            self.network.reset(self.world.rng.choice(ends))

    def _step_clock(self) -> None:
        """Step the clock of one node: log time follows a majority of clocks, and never goes back.

        If all clocks were ahead, later staged messages would wait until real time has caught up. A
        lone voter is a majority, so its clock is not stepped further than a run lasts.
        """
        if any(self.cluster.machine(node).wall_skew_us for node in self.cluster.ids):
            return
        node = self._any()
        machine = self.cluster.machine(node)
        alone = self.cluster.options.nodes == 1
        step_s = self.world.rng.choice(CLOCK_STEP_ALONE_S if alone else CLOCK_STEP_S)
        others = (until for of, until in self._ahead_until_us.items() if of != node)
        if any(self.world.now_us < until_us for until_us in others):
            # A majority of clocks that are an hour ahead makes the store forget ids, as documented.
            step_s = min(step_s, max(CLOCK_STEP_ALONE_S))
        self.world.note("clock stepped", node, step_s)
        self.world.hit("clock stepped")
        machine.wall_skew_us = step_s * SECOND
        right_s = self.world.rng.random() * 5
        if step_s > max(CLOCK_STEP_ALONE_S):
            counts_us = int((right_s + CLOCK_COUNTS_S) * SECOND)
            self._ahead_until_us[node] = self.world.now_us + counts_us
        self._later(right_s, lambda: setattr(machine, "wall_skew_us", 0))

    def _damaged_node(self) -> int:
        if self.cluster.damaged is None:
            self.cluster.damaged = self._any()
        return self.cluster.damaged

    def _rot(self) -> None:
        files = self.cluster.machine(self._damaged_node()).files
        names = [
            (path, name)
            for path, name in files.paths()
            if path != str(DATA) and name != IDENTITY_NAME and not name.endswith(".spare")
        ]
        if not names:
            return
        inode = files.inode(*self.world.rng.choice(names))
        synced = len(inode.durable.rstrip(b"\0"))
        if synced:
            self.world.hit("bytes rotted")
            files.rot(inode, self.world.below(synced), self.world.rng.choice((1, 1, 700)))
            if self.world.chance(0.5):
                self._restart_damaged()

    def _restart_damaged(self) -> None:
        """Start the damaged node again, so that it finds the damage before it votes."""
        node = self._damaged_node()
        if node in self.cluster.running:
            self.cluster.kill(node, power=self.world.chance(0.5))
            self._later(0.5 + self._away_s(), lambda: self._back(node))

    def _stray(self) -> None:
        """Not while a directory is first made: a start then refuses what it cannot tell from one
        that was another node's, and nothing is lost."""
        files = self.cluster.machine(self._damaged_node()).files
        if any(name == IDENTITY_NAME for _, name in files.paths()):
            files.strays = 1

    # -- faults that follow events of nodes ----------------------------------------------------

    def _on_log(self, node: int, event: str, fields: dict[str, Any]) -> None:
        name = _TELLING.get(event)
        if name is not None:
            self.world.hit(name)
        if event in _DAMAGED and node != self.cluster.damaged and is_of_the_disk(fields):
            self.world.fail(Violation(f"node {node} says {event!r} of a sound disk: {fields}"))
        if self.healed:
            return
        if event == "a checkpoint is needed":
            self._on_need(node, int(fields["source"]))
        elif event == "store node starts again" and node in self._installing:
            source = self._installing.pop(node)
            self.world.after(self.world.below(SECOND // 20), self._after_install, node, source)
        elif event in ("a checkpoint is not needed any more", "log opened"):
            self._installing.pop(node, None)

    def _on_need(self, node: int, source: int) -> None:
        """A node will install: it or its source may die meanwhile."""
        if node in self._installing or node == self.cluster.creeping:
            return
        options = self.cluster.options
        if options.doom_install and self.world.chance(options.doom_install):
            self.world.hit("power cut at an effect of an install")
            self._doom(node, power=True)
        elif self.world.chance(options.kill_source):
            self._installing[node] = source
            dying = DYING_OF_HISTORY.get(options.history, DYING)
            dies_s = self.world.rng.uniform(*dying[:2])
            self.world.after(int(dies_s * SECOND), self._kill_source, node, source)

    def _kill_source(self, node: int, source: int) -> None:
        if source not in self.cluster.running or self.healed:
            return
        self.world.note("source dies", source)
        self.world.hit("source of an install died")
        # Without its power it goes silently, and is asked in vain until a link is given up.
        self.cluster.kill(source, power=self.world.chance(0.2))
        dying = DYING_OF_HISTORY.get(self.cluster.options.history, DYING)
        self._later(self.world.rng.uniform(dying.least_s, dying.most_s), lambda: self._back(source))

    def _after_install(self, node: int, source: int) -> None:
        """The group has gone on without the source: now it goes on with it, and without the third,
        so that what the node knew before it installed is needed."""
        if self.healed or self.cluster.options.history == "behind":
            return
        self._back(source)
        for third in self.cluster.ids:
            if third not in (node, source) and third in self.cluster.running:
                self.world.note("third dies", third)
                self.world.hit("third node died after an install")
                self.cluster.kill(third, power=self.world.chance(0.5))
                self._later(2 + self._away_s(), lambda third=third: self._back(third))


def is_of_the_disk(fields: Mapping[str, object]) -> bool:
    """Return whether the damage that a node names is in its own bytes.

    An install that lacked messages, because a peer that has them was away or damaged, is in the
    same list until a repair has fetched them. A run ends when no node names any damage.
    """
    lacked = f"segment {NO_SEGMENT} "
    return not all(each.startswith(lacked) for each in str(fields.get("damage", "")).split("; "))


_DAMAGED = ("damaged", "stored bytes do not verify", "a checkpoint was skipped")
_TELLING = {
    "a checkpoint is needed": "install begun",
    "installed": "checkpoint installed",
    "install failed": "install failed",
    "a checkpoint is not needed any more": "install not needed any more",
    "nobody has these messages": "messages that nobody has",
    "settled": "segments settled",
    "damaged": "started damaged",
    "stored bytes do not verify": "damage found while running",
    "repaired": "damage repaired",
    "may vote again": "vote given back",
    "an index does not verify and is made anew": "index made anew",
    "a checkpoint was skipped": "checkpoint skipped",
    "disk watermark": "disk watermark",
    "groups added": "groups added",
}
