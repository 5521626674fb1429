"""The operator: adds, replaces, removes and demotes nodes, one step at a time, while all else goes
on. A step is repeated until the log has decided it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from store_nodes import commands as c
from store_nodes import errors
from store_nodes.membership import LEARNER, REMOVED, VOTER, Membership
from store_nodes.wire import Durability
from tests.simulation.options import MS
from tests.simulation.scheduler import POLL
from tests.simulation.workload import Reply

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.node import SimGroup

RETRY_US = 40 * MS
TRIES = 60
"""The number of refusals by a rule after which a plan is given up."""
MAX_VOTERS = 5


class Reconfigurer:
    """Makes plans of steps (node, role) and carries them out."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._rng = cluster.scheduler.fork("reconfigurer")
        self._plan: deque[tuple[int, str]] = deque()
        self._refused = 0
        self._sent_us = 0
        self._next_us = cluster.options.member_every_us
        self._name = ""
        self._target = 1
        self.issuing = bool(cluster.options.member_every_us)
        if self.issuing:
            self.watch()

    def watch(self) -> None:
        """Begin to carry plans out: at once, but in runs without membership changes."""
        self._cluster.scheduler.after(10 * MS, POLL, self._step)

    @property
    def idle(self) -> bool:
        return not self._plan

    @property
    def _membership(self) -> Membership:
        return self._cluster.oracle.reference.membership

    def do(self, name: str, *steps: tuple[int, str]) -> None:
        """Carry out these steps; `name` is noted when they are done."""
        assert self.idle
        self._name, self._refused = name, 0
        self._plan.extend(steps)

    def _step(self) -> None:
        cluster = self._cluster
        now = cluster.scheduler.now
        while self._plan and self._is_done(*self._plan[0]):
            self._finish(*self._plan.popleft())
        if self._plan and now - self._sent_us >= RETRY_US:
            self._send(*self._plan[0])
        elif not self._plan and self.issuing and now >= self._next_us:
            mean = cluster.options.member_every_us
            self._next_us = now + mean // 2 + self._rng.randrange(mean)
            if not cluster.damaged():
                self._make_plan()
        cluster.scheduler.after(10 * MS, POLL, self._step)

    # -- plans ---------------------------------------------------------------------------------

    def _make_plan(self) -> None:
        rng, cluster = self._rng, self._cluster
        voters = self._membership.voters
        victim = rng.choice(voters)
        leaders = [n for n in voters if cluster.alive(n) and cluster.nodes[n].leading]
        if leaders and rng.random() < 0.5:
            victim = leaders[0]
        kinds = ["demote"]
        if cluster.spares and len(voters) < MAX_VOTERS:
            kinds += ["add", "replace", "replace"]
        if len(voters) > 3:
            kinds += ["remove", "remove"]
        kind = rng.choice(kinds)
        if kind == "demote":
            self.do("voter demoted and promoted", (victim, LEARNER), (victim, VOTER))
        elif kind == "remove":
            self.do("node removed", (victim, REMOVED))
        else:
            new = cluster.add_node()
            if kind == "add":
                self.do("node added", (new, LEARNER), (new, VOTER))
                return
            dead = rng.random() < 0.6 and cluster.kill_for_good(victim)
            name = "dead node replaced" if dead else "node removed"
            self.do(name, (new, LEARNER), (new, VOTER), (victim, REMOVED))

    def _is_done(self, node: int, role: str) -> bool:
        member = self._membership.member(node)
        if role == REMOVED:
            return node in self._membership.removed
        return member is not None and member.role == role

    def _finish(self, node: int, role: str) -> None:
        self._refused = 0
        cluster = self._cluster
        if role == REMOVED:
            cluster.retire_later(node)
        if not self._plan:
            cluster.coverage.hit(self._name)

    # -- one step ------------------------------------------------------------------------------

    def _send(self, node: int, role: str) -> None:
        cluster, target = self._cluster, self._target
        self._sent_us = cluster.scheduler.now
        address = f"node-{node}:1"
        step = c.Reconfigure(self._membership.version + 1, node, role, address, {})
        raw = c.encode(step)

        def answer(at: int, what: object, flag: bool) -> None:
            match what:
                case errors.NotLeader(hint=hint):
                    self._target = hint or self._rng.choice(cluster.ids)
                case errors.NotAllowed():
                    self._refuse(node, role)
                case _:
                    pass

        def request(group: SimGroup) -> None:
            if role == REMOVED and group.replica.state.leading and node == target:
                cluster.coverage.hit("leader removed")
            group.command(raw, Durability.QUORUM, 300, Reply(cluster, target, answer))

        cluster.to_node(-3, target, "reconfigure", request)
        if self._rng.random() < 0.1:
            self._target = self._rng.choice(cluster.ids)

    def _refuse(self, node: int, role: str) -> None:
        """Not caught up, or no majority could be reached: it is tried again for a while."""
        if self._plan and self._plan[0] == (node, role):
            self._refused += 1
            if self._refused > TRIES and not self._cluster.calm:
                self._plan.clear()
