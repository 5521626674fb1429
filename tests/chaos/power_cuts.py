"""`python -m tests.chaos.power_cuts` (make power-cuts): the power of a random subset of the store
nodes fails, again and again, under load; they come back in any order, some of them late, while
others hang. Nothing that was acknowledged may be missing afterwards.

Other systems lost data here when a node forgot what it had acknowledged or promised and
formed a majority with one that never knew (NATS #7567). So the subsets, the pauses and the order of
the starts are drawn so that majorities form of every pair, also without the last leader, and nodes
lose their power again while they start.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import structlog
import uvloop

from harness.cluster import NODES, ChaosCluster, ClusterFailed
from harness.power_cut import unavailable
from tests.chaos.disks import NodeDisks
from tests.chaos.history import Outcome
from tests.chaos.rules import Verdict
from tests.chaos.scenarios import Torture
from tests.chaos.sometimes import Sometimes

SEGMENT_BYTES = 1024 * 1024
"""Small, so that cuts fall into rolls, checkpoints and settling too."""
PROGRESS_S = 60.0
CALM_S = (0.0, 0.4)
LATE_S = 0.4
PAUSE_S = 0.8
SUBSETS: tuple[tuple[int, ...], ...] = ((1,), (2,), (3,), (1, 2), (1, 3), (2, 3), (1, 2, 3))

ONE, SOME, ALL = "one node was cut", "two nodes were cut in one step", "all were cut in one step"
LEADER = "the leader of a group was cut"
WITHOUT = "a majority without the cut leader took messages"
PAUSED = "the others hung while a node was cut"
STARTING = "a node was cut while it started"
LATE = "nodes came back in another order than they went"
SITUATIONS = (ONE, SOME, ALL, LEADER, WITHOUT, PAUSED, STARTING, LATE)


class PowerCuts:
    """Cuts over one installation under load; the seed decides them."""

    def __init__(self, torture: Torture, disks: NodeDisks, seed: int) -> None:
        self.sometimes = Sometimes(SITUATIONS)
        self.cuts = 0
        self._torture = torture
        self._cluster = torture.cluster
        self._disks = disks
        self._dice = random.Random(seed)
        self._leader = 1
        """The leader of the first partition, as last seen."""

    async def run(self, cuts: int, *, each: Callable[[int], None] = lambda _: None) -> None:
        """Cut the power `cuts` times, then run everything while publishing goes on.

        A step that hits several nodes counts once. `each` is told after every cut.
        """
        self._torture.workload.start()
        end = self.cuts + cuts
        while self.cuts < end:
            await asyncio.sleep(self._dice.uniform(*CALM_S))
            await self._look_for_leader()
            nodes = self._dice.choice(SUBSETS)
            if len(nodes) == 1 and self._dice.random() < 0.5:
                nodes = (self._leader,)
            paused = await self._pause_others(nodes)
            self._cut(nodes)
            each(self.cuts)
            if self.cuts < end and self._dice.random() < 0.25:
                self._start(nodes)
                await asyncio.sleep(self._dice.uniform(0.0, 1.2))
                self.sometimes.hit(STARTING)
                self._cut(nodes)
                each(self.cuts)
            await self._bring_back(nodes, paused)

    async def _look_for_leader(self) -> None:
        with contextlib.suppress(ClusterFailed):
            self._leader = await self._torture.leader_of(0)

    async def _pause_others(self, nodes: Iterable[int]) -> list[int]:
        """Stop some of the nodes that keep their power, from a moment before the cut."""
        paused = [n for n in NODES if n not in nodes and self._dice.random() < 0.3]
        for node in paused:
            self._cluster.pause_node(node)
        if paused:
            self.sometimes.hit(PAUSED)
            await asyncio.sleep(self._dice.uniform(0.0, PAUSE_S))
        return paused

    def _cut(self, nodes: tuple[int, ...]) -> None:
        self._cluster.freeze_nodes(nodes)
        self._disks.cut(nodes)
        for node in nodes:
            self._cluster.kill_node(node)
        self._disks.remount(nodes)
        self.cuts += 1
        self.sometimes.hit((ONE, SOME, ALL)[len(nodes) - 1])
        self.sometimes.hit(LEADER, self._leader in nodes)

    def _start(self, nodes: Iterable[int]) -> None:
        for node in nodes:
            self._cluster.start_node(node)

    async def _bring_back(self, nodes: tuple[int, ...], paused: list[int]) -> None:
        """Bring the nodes back in any order; the last may wait until the others have taken
        messages.
        """
        order = self._dice.sample(nodes, len(nodes))
        self.sometimes.hit(LATE, order != sorted(order))
        late = self._dice.random() < 0.35
        if late and self._leader in order and self._dice.random() < 0.7:
            order.sort(key=lambda node: node == self._leader)
        for node in order[:-1]:
            self._start([node])
            await asyncio.sleep(self._dice.uniform(0.0, LATE_S))
        if not late:
            self._start(order[-1:])
        for node in paused:
            self._cluster.resume_node(node)
        await self._until_progress()
        if late:
            self.sometimes.hit(WITHOUT, order[-1] == self._leader)
            self._start(order[-1:])

    async def _until_progress(self) -> None:
        """Until every partition took a message that was sent after this was called: a majority
        runs. Fails when that takes too long, or a node has given up."""
        history = self._torture.workload.history
        first, began = len(history), time.monotonic()
        while {p.partition for p in history[first:] if p.outcome is Outcome.ACKED} != set(
            range(self._torture.partitions)
        ):
            await asyncio.sleep(0.02)
            if time.monotonic() - began > PROGRESS_S:
                tails = "\n".join(self._cluster.tail(f"node-{node}") for node in NODES)
                raise ClusterFailed(
                    f"no progress for {PROGRESS_S:.0f} s after {self.cuts}\n{tails}"
                )


def say(text: str) -> None:
    print(text, flush=True)


async def run(options: argparse.Namespace, root: Path) -> None:
    """Run everything; raises AssertionError when a message is missing."""
    seed = options.seed if options.seed is not None else random.randrange(10**6)
    began = time.monotonic()
    say(f"{options.cuts} power cuts, --seed {seed}")

    def each(cuts: int) -> None:
        if cuts % 25 == 0:
            say(f"  {cuts} cuts, {time.monotonic() - began:.0f} s")

    with NodeDisks(root) as disks:
        async with (
            ChaosCluster(
                root, disks.directories, store_only=True, segment_bytes=SEGMENT_BYTES
            ) as cluster,
            await Torture.on_store(cluster, per_second=options.rate) as torture,
        ):
            power = PowerCuts(torture, disks, seed)
            while power.cuts < options.cuts:
                await power.run(min(options.check_every, options.cuts - power.cuts), each=each)
                say(f"  {power.cuts} cuts: {_told(await torture.verify())}")
            say(f"  {dict(power.sometimes.seen)}")
            power.sometimes.require()
    say(f"ok: {power.cuts} power cuts in {time.monotonic() - began:.0f} s, nothing missing")


def _told(verdict: Verdict) -> str:
    return (
        f"{verdict.acked} acknowledged, {verdict.stored} stored, none lost, in order, digests equal"
        f" ({verdict.not_done} not done, {verdict.unknown} unknown)"
    )


def main() -> int:
    """Exit status 1 when something was missed, also a situation that never came."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuts", type=int, default=500)
    parser.add_argument("--check-every", type=int, default=100, help="cuts from check to check")
    parser.add_argument("--rate", type=float, default=60, help="unkeyed messages per second")
    parser.add_argument("--seed", type=int, help="random if not given")
    parser.add_argument("--directory", type=Path, help="where the images go")
    options = parser.parse_args()
    reason = unavailable()
    if reason is not None:
        say(f"SKIPPED: {reason}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    root = Path(tempfile.mkdtemp(prefix="packetboat-power-", dir=options.directory))
    try:
        uvloop.run(run(options, root))
    except AssertionError as error:
        say(f"FAILED: {error}\nlogs are kept in {root}")
        return 1
    shutil.rmtree(root, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
