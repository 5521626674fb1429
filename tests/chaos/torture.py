"""`python -m tests.chaos.torture` (make torture): faults on real processes under load, with the
figures the product promises. Every scenario ends with the whole history held against the log.

    kills       SIGKILL of a partition's leader, again and again; the harness starts it again
    hangs       SIGSTOP of a partition's leader for five seconds
    server      SIGKILL of the server, then SIGTERM: what was accepted is there, no ack is lost
    postgres    SIGKILL of Postgres: publishing goes on, and all heals when it is back
    everything  SIGKILL of all processes at once, then a start of all
    storm       all of these at random moments, also several at once, while every command and every
                way to consume is at work and an operator changes the members, the groups and a
                partition's place
    fleet       three subscribe and two publish forwarders behind HAProxy, killed, paused for up to
                a minute and restarted, and Postgres too, while workers pull, stream and ack
    restored    a backup of Postgres restored under load, ten minutes old: it is noticed, fenced and
                brought up to what the store has; what it forgot is redelivered or adopted
    power       power cut of one node's disk, then of all disks in one step (root, loop devices)
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import structlog
import uvloop

from harness import balancers
from harness.cluster import ChaosCluster
from harness.fleet import Fleet
from harness.power_cut import unavailable
from tests.chaos.command_load import CommandLoad
from tests.chaos.delivery.actor import Site
from tests.chaos.delivery.load import DeliveryLoad
from tests.chaos.disks import NodeDisks
from tests.chaos.fleet_storm import FLEET_ACTORS, FleetStorm
from tests.chaos.operations import Operations
from tests.chaos.restored import Restored
from tests.chaos.rules import Verdict
from tests.chaos.scenarios import PARTITIONS, FaultResult, Torture
from tests.chaos.sometimes import Sometimes
from tests.chaos.storm import Storm
from tests.chaos.workload import failed

MAX_FAILED_MEDIAN = 5
MAX_GAP_MEDIAN_S = 0.5
MAX_GAP_S = 3.0
STORM_SEGMENT_BYTES = 1024 * 1024
"""Small, so that the log is sealed and rolled while it storms."""


class Judge:
    """Prints what is measured and remembers what was missed."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def expect(self, what: str, value: float, limit: float) -> None:
        """`value` must not be above `limit`."""
        verdict = "ok    " if value <= limit else "MISSED"
        self.say(f"{verdict} {what}: {value:.3g} (≤ {limit:g})")
        if value > limit:
            self.missed.append(f"{what}: {value:.3g} > {limit:g}")

    def fault(self, number: int, result: FaultResult) -> None:
        self.say(
            f"  {number + 1:3}  node {result.node}: {result.failed} of {result.published} failed"
            f" {result.reasons or ''}, keyed gap {result.keyed_gap_s:.3f} s,"
            f" caught up in {result.caught_up_s:.1f} s"
        )

    def history(self, verdict: Verdict) -> None:
        self.say(
            f"ok     history: {verdict.acked} acknowledged, {verdict.stored} stored, none lost, in"
            f" order, digests equal ({verdict.not_done} not done, {verdict.unknown} unknown of"
            f" which {verdict.unknown_but_stored} stored); {verdict.deliveries} deliveries, each"
            " message acked"
        )

    def covered(self, sometimes: Sometimes) -> None:
        """A situation that never came is a miss: the run says nothing of it."""
        self.say(f"       {dict(sometimes.seen)}")
        self.missed += [f"never seen: {what}" for what in sometimes.missing]

    @staticmethod
    def say(text: str) -> None:
        print(text, flush=True)


async def kills(options: argparse.Namespace, root: Path, judge: Judge) -> None:
    """Kill one node with SIGKILL under 500 msg/s, and start it again."""
    async with (
        ChaosCluster(root) as cluster,
        await Torture.over_http(cluster, "kills", per_second=options.rate) as torture,
    ):
        torture.workload.start()
        results: list[FaultResult] = []
        for number in range(options.kills):
            results.append(await torture.kill(number % PARTITIONS, window_s=options.window))
            judge.fault(number, results[-1])
        judge.history(await torture.verify())
    failures = statistics.median(result.failed for result in results)
    judge.expect("failed publishes per kill, median", failures, MAX_FAILED_MEDIAN)
    _judge_gaps("kill", results, judge)
    judge.expect("kill: keyed resume, median, s", _median_gap(results), MAX_GAP_MEDIAN_S)


async def hangs(options: argparse.Namespace, root: Path, judge: Judge) -> None:
    """Stop one node with SIGSTOP under load."""
    async with (
        ChaosCluster(root) as cluster,
        await Torture.over_http(cluster, "hangs", per_second=options.rate) as torture,
    ):
        torture.workload.start()
        results: list[FaultResult] = []
        for number in range(options.hangs):
            results.append(await torture.hang(number % PARTITIONS, window_s=options.window))
            judge.fault(number, results[-1])
        judge.history(await torture.verify())
    _judge_gaps("hang", results, judge)


def _median_gap(results: Sequence[FaultResult]) -> float:
    return statistics.median(result.keyed_gap_s for result in results)


def _judge_gaps(what: str, results: Sequence[FaultResult], judge: Judge) -> None:
    judge.say(f"       {what}: keyed resume, median {_median_gap(results):.3f} s")
    longest = max(result.keyed_gap_s for result in results)
    judge.expect(f"{what}: keyed resume, max, s", longest, MAX_GAP_S)


async def server(options: argparse.Namespace, root: Path, judge: Judge) -> None:
    """Kill the server, and stop it, under load."""
    async with (
        ChaosCluster(root) as cluster,
        await Torture.over_http(cluster, "server", per_second=options.rate) as torture,
    ):
        for number in range(options.rounds):
            await torture.restart_server(load_s=3, kindly=number % 2 == 1)
            judge.history(await torture.verify())


async def postgres(options: argparse.Namespace, root: Path, judge: Judge) -> None:
    """Stop Postgres for ten seconds under load."""
    async with (
        ChaosCluster(root) as cluster,
        await Torture.over_http(cluster, "postgres", per_second=options.rate) as torture,
    ):
        meanwhile = await torture.lose_postgres(load_s=3, down_s=10)
        bad = failed(meanwhile)
        judge.expect("failed publishes without Postgres", len(bad), 0)
        judge.say(f"       of {len(meanwhile)}; {sorted({publish.reason for publish in bad})}")
        judge.history(await torture.verify())


async def everything(options: argparse.Namespace, root: Path, judge: Judge) -> None:
    """Kill all processes at once, Postgres too."""
    async with (
        ChaosCluster(root) as cluster,
        await Torture.over_http(cluster, "everything", per_second=options.rate) as torture,
    ):
        for _ in range(options.rounds):
            began = time.monotonic()
            await torture.kill_everything(load_s=3)
            judge.say(f"       up again in {time.monotonic() - began - 3:.1f} s")
            judge.history(await torture.verify())
        torture.workload.start()
        await asyncio.sleep(2)
        judge.history(await torture.verify())


async def power(options: argparse.Namespace, root: Path, judge: Judge) -> None:
    """Lose the unsynced bytes of disks: one node's at a time, then all in one step."""
    reason = unavailable()
    if reason is not None:
        judge.say(f"SKIPPED power cuts: {reason}")
        return
    with NodeDisks(root) as disks:
        async with (
            ChaosCluster(root, disks.directories) as cluster,
            await Torture.over_http(cluster, "power", per_second=options.rate) as torture,
        ):
            torture.workload.start()
            for number in range(options.power_cuts):
                judge.fault(
                    number,
                    await torture.cut_power(number % PARTITIONS, disks, window_s=options.window),
                )
            judge.history(await torture.verify())
            for _ in range(options.rounds):
                await torture.cut_all_power(disks, load_s=3)
                judge.history(await torture.verify())


async def storm(options: argparse.Namespace, root: Path, judge: Judge) -> None:
    """Random faults on every node and the server, also at once, while every command is at work and
    an operator adds, removes and replaces nodes, adds a group and moves a partition."""
    seed = options.seed if options.seed is not None else random.randrange(10**6)
    judge.say(f"       --seed {seed}")
    with ExitStack() as stack:
        disks = stack.enter_context(NodeDisks(root)) if unavailable() is None else None
        directories = disks.directories if disks is not None else None
        async with (
            ChaosCluster(root, directories, segment_bytes=STORM_SEGMENT_BYTES) as cluster,
            await Torture.over_http(cluster, "storm", per_second=options.rate) as torture,
        ):
            weather = Storm(torture, disks, seed)
            operations = Operations(torture, seed, joined=weather.node, leaving=weather.spare)
            commands = await CommandLoad.on(cluster, seed)
            site = Site(cluster.http_port, cluster.token)
            deliveries = DeliveryLoad(site, seed, lapses=cluster.lapses)
            await deliveries.prepare()
            try:
                commands.start()
                deliveries.start()
                await weather.run(options.storm, operations.run)
                judge.say(f"       {dict(weather.faults)}")
                await deliveries.verify()
                await commands.verify()
                judge.history(await torture.verify(nodes=operations.nodes))
            finally:
                await deliveries.close()
                await commands.close()
            judge.covered(commands.sometimes)
            judge.covered(deliveries.sometimes)
            judge.covered(operations.sometimes)


async def fleet(options: argparse.Namespace, root: Path, judge: Judge) -> None:
    """Cause random faults on many forwarders behind a real balancer, with every delivery
    accounted for.
    """
    if not balancers.program("haproxy"):
        judge.say("SKIPPED the fleet: haproxy is not installed")
        return
    seed = options.seed if options.seed is not None else random.randrange(10**6)
    balance: Literal["hash", "roundrobin"] = "hash" if seed % 2 else "roundrobin"
    judge.say(f"       --seed {seed} ({balance})")
    async with Fleet(root, balance=balance) as installation:
        storm = FleetStorm(installation, FLEET_ACTORS, seed)
        await storm.load.prepare()
        try:
            storm.load.start()
            await storm.run(options.fleet)
            judge.say(f"       {dict(storm.faults)}, hints: {dict(storm.hints)}")
            await storm.verify()
            for counted in storm.counted():
                judge.say(f"       {counted}")
        finally:
            await storm.load.close()
        judge.covered(storm.load.sometimes)


async def restored(options: argparse.Namespace, root: Path, judge: Judge) -> None:
    """Restore an old backup of Postgres in the place of the new one, under load."""
    async with (
        ChaosCluster(root) as cluster,
        await Torture.over_http(cluster, "restored", per_second=options.rate) as torture,
    ):
        torture.workload.start()
        await Restored(cluster, torture, root).run(options.backup_age)
        judge.history(await torture.verify(acks_forgotten=True))


SCENARIOS: dict[str, Callable[[argparse.Namespace, Path, Judge], Awaitable[None]]] = {
    "kills": kills,
    "hangs": hangs,
    "server": server,
    "postgres": postgres,
    "everything": everything,
    "power": power,
    "storm": storm,
    "fleet": fleet,
    "restored": restored,
}


async def run(options: argparse.Namespace, judge: Judge) -> None:
    """Run the chosen scenarios, each on an installation of its own."""
    for name in options.only.split(","):
        judge.say(f"== {name}: {(SCENARIOS[name].__doc__ or '').splitlines()[0]}")
        root = Path(tempfile.mkdtemp(prefix="packetboat-torture-", dir=options.directory))
        os.chmod(root, 0o755)  # Postgres runs as a lesser account when we are root
        try:
            await SCENARIOS[name](options, root, judge)
        except BaseException as error:
            notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
            judge.say(f"FAILED {name}: {error}{notes}\nlogs are kept in {root}")
            judge.missed.append(f"{name}: {type(error).__name__}")
            if not isinstance(error, AssertionError):
                raise
        else:
            shutil.rmtree(root, ignore_errors=True)


def main() -> int:
    """Exit status 1 when anything was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(SCENARIOS), help="scenarios, comma-separated")
    parser.add_argument("--rate", type=float, default=500, help="unkeyed messages per second")
    parser.add_argument("--window", type=float, default=10, help="seconds counted per fault")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--hangs", type=int, default=5)
    parser.add_argument("--power-cuts", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3, help="of kills and cuts of everything")
    parser.add_argument("--storm", type=float, default=60, help="seconds of random faults")
    parser.add_argument("--fleet", type=float, default=180, help="seconds of faults on the fleet")
    parser.add_argument("--backup-age", type=float, default=600, help="seconds, of `restored`")
    parser.add_argument("--seed", type=int, help="of the storm; random if not given")
    parser.add_argument("--directory", type=Path, help="where the data goes; not a memory disk")
    options = parser.parse_args()
    unknown = set(options.only.split(",")) - set(SCENARIOS)
    if unknown:
        parser.error(f"--only: no scenario {sorted(unknown)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    judge = Judge()
    uvloop.run(run(options, judge))
    judge.say("== missed: " + ("; ".join(judge.missed) or "nothing"))
    return 1 if judge.missed else 0


if __name__ == "__main__":
    sys.exit(main())
