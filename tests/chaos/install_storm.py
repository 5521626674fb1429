"""`python -m tests.chaos.install_storm` (make install-storm): installs while nodes come and go.

Three store nodes with a lag cap and segments of 1 MiB. Each of them is killed or stopped (SIGSTOP)
at random moments and stays away at random, often for so long that the others trim what it lacks.
Then it has to install a checkpoint of a peer, over a copy that is slow, while the peers go away in
their turn. Publishers with keys of their own publish all the time. In the end nothing that was
acknowledged is missing, nothing is stored twice, and every key is in order.

The seed decides which node goes when, how, and for how long; the processes' own timing is what it
is, so a seed makes a failure likely to come back, not certain.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import structlog
import uvloop

from harness import releases
from harness.cluster import NODES, ChaosCluster
from harness.releases import CURRENT, Release
from store_nodes.client import StoreClient
from store_nodes.errors import StoreError
from tests.chaos.rules import Verdict
from tests.chaos.scenarios import Torture

MIB = 1024 * 1024
SMALL = {"PACKETBOAT_STORE_LAG_CAP_BYTES": str(MIB)}
PADDING = "x" * 12_000
PARTITIONS = 1
"""The number of partitions.

One: peers keep 8 MiB or 512 instances of each group in memory, and nothing of these is gone.
"""
KEYS = 6
PER_SECOND = 10.0
"""Unkeyed messages, beside those of the keys."""
UP_S = (2.0, 10.0)
UP_AFTER_LONG_S = (25.0, 50.0)
"""Long enough for an install over a slow copy, and for some faults of its peers meanwhile."""
SHORT_S = (0.5, 6.0)
LONG_S = (12.0, 20.0)
LONG_SHARE = 0.7
"""The share of the times that a node is away for long, where no other is. Meanwhile the peers are
away for a blip at most: they go on, and trim what is lacking. A slow node trims nothing: when it
leads, it gives the instances to a node that is installing the checkpoint of another."""
BLIP_S = (0.1, 0.5)
BLIP_SHARE = 0.3
"""The share of the times that a node goes while another is away for long; the others are skipped.
A blip is a kill: the node has nothing in memory afterwards but what is on its disk."""
SLOW_BYTES_PER_S = MIB
"""The speed of a node that was killed and away for long: its install lasts into the next faults.

The others are fast, for nodes settle at this speed too, and slow ones truncate nothing.
"""
SLOW = {"PACKETBOAT_STORE_COPY_BYTES_PER_S": str(SLOW_BYTES_PER_S)}
CHECKPOINT_EVERY_S = 1.0
"""Only what lies below a checkpoint is trimmed; by themselves nodes write one each 64 MiB."""
AGREE_S = 180.0
"""Seconds the nodes may take to install all they lack once the faults are over."""


class InstallStorm:
    """One storm over one installation under load."""

    def __init__(self, torture: Torture, seed: int) -> None:
        self.faults: Counter[str] = Counter()
        self._torture = torture
        self._cluster = torture.cluster
        self._seed = seed
        self._end_s = 0.0
        self._long_away: int | None = None

    async def run(self, seconds: float) -> None:
        """Run the storm until the time is over; every node runs again afterwards, at full speed."""
        self._end_s = time.monotonic() + seconds
        self._torture.workload.start()
        async with self._cluster.ready_client() as client, asyncio.TaskGroup() as group:
            checkpoints = group.create_task(self._take_checkpoints(client))
            nodes = [group.create_task(self._on_node(node)) for node in NODES]
            await asyncio.wait(nodes)
            checkpoints.cancel()
        for node in NODES:
            # A slow copy would only delay the end. A node that ended by itself has said why.
            self._cluster.end_node(node)
            self._cluster.start_node(node)

    async def _on_node(self, node: int) -> None:
        dice = random.Random(f"{self._seed}/{node}")
        up_s = UP_S
        while True:
            await asyncio.sleep(dice.uniform(*up_s))
            if time.monotonic() > self._end_s:
                return
            up_s = UP_AFTER_LONG_S if await self._away(node, dice) else UP_S

    async def _away(self, node: int, dice: random.Random) -> bool:
        """Return whether the node was away for long."""
        if self._long_away is not None:
            if dice.random() < BLIP_SHARE:
                self.faults["blip"] += 1
                await self._killed(node, dice.uniform(*BLIP_S))
        elif dice.random() < LONG_SHARE:
            self.faults["long"] += 1
            self._long_away = node
            try:
                await self._killed(node, dice.uniform(*LONG_S), SLOW)
            finally:
                self._long_away = None
            return True
        elif dice.choice(("kill", "kill", "stop")) == "kill":
            self.faults["kill"] += 1
            await self._killed(node, dice.uniform(*SHORT_S))
        else:
            self.faults["stop"] += 1
            self._cluster.pause_node(node)
            await asyncio.sleep(dice.uniform(*SHORT_S))
            self._cluster.resume_node(node)
        return False

    async def _killed(
        self, node: int, away_s: float, settings: Mapping[str, str] | None = None
    ) -> None:
        self._cluster.end_node(node)
        await asyncio.sleep(away_s)
        self._cluster.start_node(node, settings)

    async def _take_checkpoints(self, client: StoreClient) -> None:
        while True:
            await asyncio.sleep(CHECKPOINT_EVERY_S)
            with contextlib.suppress(StoreError):
                await client.take_checkpoint(0, timeout_s=CHECKPOINT_EVERY_S)

    def logged(self, event: str) -> int:
        """Return how often the nodes have this event in their logs."""
        word = json.dumps(event)
        logs = [self._cluster.root / f"node-{node}.log" for node in NODES]
        return sum(log.read_text(errors="replace").count(f'"event": {word}') for log in logs)


async def storm(
    root: Path, seed: int, seconds: float, release: Release = CURRENT
) -> tuple[InstallStorm, Verdict]:
    """Run a storm, then hold the history against the log.

    Raises AssertionError where a rule is broken or the nodes do not come to agree.
    """
    cluster = ChaosCluster(
        root, store_only=True, segment_bytes=MIB, node_settings=SMALL, release=release
    )
    async with (
        cluster,
        await Torture.on_store(
            cluster, per_second=PER_SECOND, keys=KEYS, padding=PADDING, partitions=PARTITIONS
        ) as torture,
    ):
        installs = InstallStorm(torture, seed)
        await installs.run(seconds)
        await torture.workload.stop()
        await cluster.until_replicas_agree(AGREE_S)
        return installs, await torture.verify()


def say(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    """Exit status 1 when something is missing, twice or out of order, or nothing was installed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="of the first storm; random if not given")
    parser.add_argument("--seeds", type=int, default=1, help="storms, with seeds one after another")
    parser.add_argument("--minutes", type=float, default=5.0, help="of each storm")
    parser.add_argument("--commit", help="storm on nodes of this release or commit")
    parser.add_argument("--directory", type=Path, help="where the data goes")
    asked = parser.parse_args()
    if asked.commit and (reason := releases.missing(asked.commit)):
        say(f"no storm: {reason}")
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    first = asked.seed if asked.seed is not None else random.randrange(10**6)
    return max(_one(asked, seed) for seed in range(first, first + asked.seeds))


def _one(asked: argparse.Namespace, seed: int) -> int:
    place = Path(tempfile.mkdtemp(prefix="packetboat-install-", dir=asked.directory))
    release = releases.unpacked(place, asked.commit) if asked.commit else CURRENT
    say(f"{asked.minutes:g} minutes, --seed {seed}, nodes of {release.name}")
    try:
        installs, verdict = uvloop.run(storm(place / "data", seed, asked.minutes * 60, release))
        count = installs.logged("installed")
        passed = installs.logged("a checkpoint is not needed any more")
        assert count, "no node installed anything: the storm proves nothing"
    except (AssertionError, TimeoutError) as error:
        say(f"FAILED: {error}\ndata and logs are kept in {place}")
        return 1
    say(
        f"ok: {dict(installs.faults)}, {count} installs, {passed} images dropped because the group"
        f" had passed them; {verdict.acked} acknowledged,"
        f" {verdict.stored} stored, none lost, none twice, in order"
        f" ({verdict.not_done} not done, {verdict.unknown} unknown)"
    )
    shutil.rmtree(place, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
