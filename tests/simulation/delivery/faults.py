"""The faults of a seed: drawn, done to whole processes and to Postgres, and healed."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from random import Random

from tests.simulation.delivery.forgetting import Forgotten
from tests.simulation.delivery.growing import GREW, WAITING
from tests.simulation.delivery.installation import PLATFORM, SERVERS, Installation, Snapshot
from tests.simulation.delivery.options import GO_BACK, KILL_IN_STALL, SLOW, Options
from tests.simulation.kernel import network as networks
from tests.simulation.kernel.world import SECOND

LATE_S = 0.5
SLOW_S = (0.08, 0.12)
DOWN_S = (0.05, 6.0)
PAUSE_S = (0.2, 7.0)
"""A lease lasts 4 s: some pauses are longer."""
STALL_S = (0.1, 6.0)
BACKUP_AGE_S = (0.1, 3.0)
ENDINGS = KILL, STOP = "kill a server", "stop a server"


class Faults:
    """The faults of one seed come one after the other, from `start` until `heal`."""

    def __init__(self, place: Installation, options: Options) -> None:
        self._place = place
        self._options = options
        self._draw = Random(f"faults {options.seed}")
        self._healing = False
        self._kinds: list[str] = []
        """Kinds that come before any kind comes again."""
        self.counts: Counter[str] = Counter()
        self.forgotten: list[Forgotten] = []
        self._leads = ""
        """The server that does what is due."""
        self._snapshot: Snapshot | None = None
        self._stopping: set[str] = set()
        """Servers that were asked to stop, and have not started again."""
        self._unnoticed = False
        """Whether Postgres came from a backup, and the store is not in a new era yet. Only servers
        that saw the lost future can tell (P6), so none ends meanwhile."""
        self._do: dict[str, Callable[[], None]] = {
            KILL: self._kill_server,
            STOP: self._stop_server,
            "pause a server": self._pause_server,
            "kill a store node": self._kill_node,
            "stall Postgres": self._stall,
            "cut connections to Postgres": self._cut,
            "fail over": self._fail_over,
            GO_BACK: self._go_back,
        }

    def start(self) -> None:
        """Begin faults at drawn moments."""
        faults = self._place.postgres.faults
        faults.lost_answers = self._options.lost_answers
        faults.lost_requests = self._options.lost_requests
        faults.slow = self._options.slow
        faults.slow_s = (0.01, self._options.slow_most_s)
        late = networks.of(self._place.world).late
        for host, _ in self._place.nodes.values():
            for pair in ((PLATFORM, host), (host, PLATFORM)):
                late[pair] = (self._options.late, int(LATE_S * SECOND))
        if any(kind in self._do for kind in self._options.faults):
            self._next()

    def heal(self) -> None:
        """End all faults; servers that are down start again. Postgres is slow no more: what comes
        after has to end in time (delivery seed 2571512024 took 165 s for a job of 50 tasks)."""
        self._healing = True
        faults = self._place.postgres.faults
        faults.lost_answers = faults.lost_requests = faults.slow = 0.0
        networks.of(self._place.world).late.clear()
        networks.of(self._place.world).slow_processes.clear()
        for name in SERVERS:
            self._start_server(name)

    def heard(self, what: str) -> None:
        """Take note of a situation in which faults are likelier to show something."""
        if self._healing:
            return
        if what == GREW and SLOW in self._options.faults:
            self._slow_down()
        if KILL_IN_STALL not in self._options.faults:
            return
        if what == WAITING:
            self._kill_in_stall()
        elif what == GREW and self._draw.random() < 0.1:
            self._later((0.0, 0.2), self._kill_in_stall)

    def logged(self, process: str, event: str) -> None:
        """Take note of an event that the product logged."""
        if event == "leading":
            self._leads = process
        elif event == "repairing Postgres from the store":
            self._unnoticed = False

    def _slow_down(self) -> None:
        """The server that does what is due is slow to reach the store from now on, so that between
        any two of its requests others make changes."""
        self.counts[SLOW] += 1
        slow = networks.of(self._place.world).slow_processes
        slow.clear()
        slow[self._leads] = int(self._draw.uniform(*SLOW_S) * SECOND)

    def _next(self) -> None:
        after_s = self._draw.expovariate(1 / self._options.every_s)
        self._place.world.after(int(after_s * SECOND), self._one)

    def _one(self) -> None:
        if self._healing:
            return
        if not self._kinds:
            # Each in its turn, so that a run has had all of what it drew.
            self._kinds = [kind for kind in self._options.faults if kind in self._do]
            self._draw.shuffle(self._kinds)
        kind = self._kinds.pop()
        if kind in ENDINGS and self._unnoticed:
            self.counts["no server ended, for nobody had noticed a backup"] += 1
        else:
            self._place.world.note("fault", kind)
            self.counts[kind] += 1
            self._do[kind]()
        self._next()

    def _later(self, bounds_s: tuple[float, float], action: Callable[[], None]) -> None:
        self._place.world.after(int(self._draw.uniform(*bounds_s) * SECOND), action)

    def _running(self) -> str | None:
        names = [name for name in SERVERS if not self._place.processes[name].dead]
        return self._draw.choice(names) if names else None

    def _ending(self) -> str | None:
        """Return a server that may end now."""
        return None if self._unnoticed else self._running()

    def _start_server(self, name: str) -> None:
        if self._place.processes[name].dead:
            self._stopping.discard(name)
            self._place.start_server(name)

    def _kill_server(self) -> None:
        if (name := self._ending()) is not None:
            self._place.processes[name].kill()
            self._later(DOWN_S, lambda: self._start_server(name))

    def _kill_in_stall(self) -> None:
        """Servers die of which commits are under way, and waited for; at times Postgres too."""
        if self._healing:
            return
        self._place.world.note("fault", KILL_IN_STALL)
        self.counts[KILL_IN_STALL] += 1
        seconds = self._draw.uniform(1.0, 3.0)
        self._place.postgres.stall(seconds)

        def kill() -> None:
            if self._healing:
                return
            for _ in range(self._draw.choice((1, 3, 3, 3))):
                self._kill_server()
            if self._draw.random() < 0.3:
                self._fail_over()

        self._place.world.after(int(self._draw.uniform(0.5, 1.0) * seconds * SECOND), kill)

    def _stop_server(self) -> None:
        if (name := self._ending()) is not None:
            self._stopping.add(name)
            process = self._place.processes[name]
            process.on_exit = lambda _: self._later(DOWN_S, lambda: self._start_server(name))
            process.signal(signal.SIGTERM)

    def _pause_server(self) -> None:
        if (name := self._running()) is not None:
            self._place.processes[name].pause(int(self._draw.uniform(*PAUSE_S) * SECOND))

    def _kill_node(self) -> None:
        """One at a time: of three, a majority stays."""
        processes = {n: self._place.processes[f"store-{n}"] for n in self._place.nodes}
        if any(process.dead for process in processes.values()):
            return
        node = self._draw.choice(list(processes))
        if len(processes) > 1:
            self.counts["kill one of several store nodes"] += 1
        processes[node].kill()
        self._later((0.05, 1.0), lambda: self._place.start_node(node))

    def _stall(self) -> None:
        self._place.postgres.stall(self._draw.uniform(*STALL_S))

    def _cut(self) -> None:
        self._place.postgres.cut(self._draw.choice((0.1, 0.5, 1.0)))

    def _fail_over(self) -> None:
        """Promote a standby that has all that was committed."""
        if self._place.postgres.server is None:
            return
        self._place.lose_postgres()
        self._later((0.05, 3.0), self._place.promote_standby)

    def _go_back(self) -> None:
        """Put a snapshot of now in the place of Postgres, up to 3 s later."""
        if self._place.postgres.server is None or self._snapshot is not None:
            return
        self._snapshot = self._place.snapshot()
        self._later(BACKUP_AGE_S, self._put_back)

    def _put_back(self) -> None:
        snapshot, self._snapshot = self._snapshot, None
        assert snapshot is not None
        place = self._place
        if self._healing or place.postgres.server is None:
            return
        kind = self._draw.choice(("standby", "backup", "other server"))
        down = self._stopping or any(place.processes[name].dead for name in SERVERS)
        if down or not place.all_saw_later(snapshot):
            # A server that starts later, or saw nothing later, can tell a backup by the store's
            # witness alone, which may be ten seconds old.
            kind = "standby"
        self._unnoticed = kind == "backup"
        old = snapshot.place
        if kind == "standby":
            old = old._replace(timeline=old.timeline + 1)
        elif kind == "other server":
            old = old._replace(system_identifier=old.system_identifier + 1)
        self.counts["went back in time"] += 1
        self.counts[f"went back: {kind}"] += 1
        machine = place.world.machine(PLATFORM)
        times = (machine.local_us(us) / SECOND for us in (snapshot.taken_us, place.world.now_us))
        self.forgotten.append(Forgotten(*times))
        place.lose_postgres(snapshot._replace(place=old))
        self._later((0.05, 3.0), place.promote_standby)
