"""`python -m tests.chaos.exports [--rounds 2] [--seed 1]` (make export-torture): an export runs
again and again while messages come in and everything that takes part in it is killed: drivers at
each step of a run, the JVM and Python workers of Spark, the runner, the server, store nodes,
Postgres; and drivers that are paused, overtaken by another attempt of their run, and go on.

At the end each message of the log is in the table or among its rejects exactly once, as it was
published, and no file is left that no snapshot names.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from packetboat.aio.client import AsyncClient
from packetboat.errors import PacketboatError
from packetboat.models import Outgoing, Retention
from packetboat.models.exports import ExportRun

from harness.cluster import NODES, ChaosCluster
from harness.processes import Processes
from spark_exports.fail_points import FAIL_POINTS
from tests.chaos.export_driver import FAULT
from tests.chaos.export_tables import problems_of

ROOT = Path(__file__).parents[2]
TOPIC = "events"
PARTITIONS = 2
PRIORITIES = 2
PATIENCE_S = 900.0
OUTAGE_S = 120.0
DOWN_S = (0.5, 4.0)
BATCH = 10
PAUSE_S = 0.3
STAGES = ("starting", "opening", "writing", "committing")
KILLS = tuple(f"kill {point}" for point in FAIL_POINTS)
ZOMBIES = ("zombie files_written", "zombie rejects_committed", "zombie anywhere")
OTHERS = ("driver", "jvm", "worker", "runner", "server", "node", "postgres")
FAULTS = (*KILLS, *ZOMBIES, *OTHERS)


class ExportStorm:
    """A storm on a cluster that runs. `prepare`, `suffer` faults, then `verify`."""

    def __init__(self, cluster: ChaosCluster, seed: int) -> None:
        self.published = 0
        self.attempts: Counter[str] = Counter()
        self._cluster = cluster
        self._dice = random.Random(seed)
        self._url = f"http://127.0.0.1:{cluster.http_port}"
        self._client = AsyncClient(self._url, cluster.token)
        self._processes = Processes()
        self._lakes = cluster.root / "lakes.json"
        self._fault = cluster.root / "fault"
        self._runner: subprocess.Popen[bytes]
        self._calm = asyncio.Event()

    async def prepare(self) -> None:
        url = self._cluster.postgres.url.replace("postgresql://", "postgresql+psycopg://")
        lake = {
            "name": "default",
            "warehouse": str(self._cluster.root / "lake"),
            "catalog": {"type": "sql", "uri": url},
            "spark_master": "local[2]",
        }
        self._lakes.write_text(json.dumps([lake]))
        self._runner = self._start_runner("first")
        await self._client.topics.create(
            TOPIC,
            partitions=PARTITIONS,
            priorities=PRIORITIES,
            retention=Retention("retain"),  # else what is exported is not there to compare with
        )
        await self._client.exports.create(TOPIC, TOPIC, key_buckets=2)

    async def suffer(self, faults: list[str]) -> None:
        """Cause one fault after the other, while messages come in.

        After each the run that it hit has to come to its end.
        """
        publishing = asyncio.create_task(self._publish())
        try:
            for fault in faults:
                began_s = time.monotonic()
                await self._suffer(fault)
                took_s = time.monotonic() - began_s
                print(f"{fault}: {took_s:.0f} s, {self.published} published", flush=True)
        finally:
            self._calm.set()
            await publishing

    async def verify(self) -> list[str]:
        """Return all faults found, once all is exported and tidied."""
        while (await self._client.exports.get(TOPIC)).lag_messages:
            await self._ended(await self._ask())
        await self._ended(await self._ask("maintain"))
        return await asyncio.to_thread(
            problems_of, self._url, self._cluster.token, self._lakes, TOPIC, range(PRIORITIES)
        )

    async def close(self) -> None:
        self._processes.stop(grace_s=10.0)
        await self._client.close()

    # -- faults --------------------------------------------------------------------------------

    async def _suffer(self, fault: str) -> None:
        kind, _, where = fault.partition(" ")
        if kind == "kill":
            self._fault.write_text(f"kill {where}")
            run = await self._ask()
            await self._until(lambda: not self._fault.exists())
        elif kind == "zombie":
            run = await self._overtaken(where)
        else:
            run = await self._ask()
            await self._until_stage(run, self._dice.choice(STAGES))
            await asyncio.sleep(self._dice.uniform(0, 1))
            await self._hit(kind)
        ended = await self._ended(run)
        self.attempts[fault] = ended.attempt

    async def _hit(self, kind: str) -> None:
        down_s = self._dice.uniform(*DOWN_S)
        match kind:
            case "driver":
                kill(driver_of(self._runner.pid))
            case "jvm":
                kill_all(self._of_driver("java"))
            case "worker":
                kill_all(self._of_driver("pyspark.daemon"))
            case "runner":
                self._runner.kill()
                self._runner.wait()
                self._runner = self._start_runner("another")
            case "server":
                self._cluster.kill_server()
                await asyncio.sleep(down_s)
                self._cluster.start_server()
            case "node":
                node = self._dice.choice(NODES)
                self._cluster.kill_node(node)
                await asyncio.sleep(down_s)
                self._cluster.start_node(node)
            case "postgres":
                self._cluster.kill_postgres()
                await asyncio.sleep(down_s)
                await self._cluster.start_postgres()

    async def _overtaken(self, where: str) -> int:
        """A driver and its runner are paused, as a machine is; another attempt commits; then the
        driver goes on, and its runner after it."""
        late = self._runner
        if where != "anywhere":
            self._fault.write_text(f"stop {where}")
            run = await self._ask()
            await self._until(lambda: state_of(driver_of(late.pid)) == "T")
        else:
            run = await self._ask()
            await self._until_stage(run, "writing")
            await asyncio.sleep(self._dice.uniform(0, 2))
        driver = driver_of(late.pid)
        paused = [late.pid, *session_of(driver)] if driver else [late.pid]
        send(paused, signal.SIGSTOP)
        self._runner = self._start_runner("heir")
        await self._ended(run)
        send([pid for pid in paused if pid != late.pid], signal.SIGCONT)
        # It ends by itself, with what its commit came to; nobody listens.
        await self._until(lambda: state_of(driver) in (None, "Z"))
        send([late.pid], signal.SIGCONT)
        late.terminate()
        await asyncio.to_thread(late.wait)
        return run

    # -- runs ----------------------------------------------------------------------------------

    async def _ask(self, kind: Any = "export") -> int:
        """Return the number of a run that begins soon."""
        number: int = await self._patiently(lambda: self._asked(kind))
        return number

    async def _asked(self, kind: Any) -> int:
        return (await self._client.exports.run(TOPIC, kind=kind)).number

    async def _ended(self, number: int) -> ExportRun:
        handle = self._client.exports.handle(TOPIC, number)
        run: ExportRun = await self._patiently(lambda: handle.wait(timeout_s=PATIENCE_S))
        if run.state != "succeeded":
            raise AssertionError(f"run {number}: {run.state}, {run.failure}\n{await handle.log()}")
        return run

    async def _until_stage(self, number: int, stage: str) -> None:
        """Wait until the run is at the stage, or past it."""
        handle = self._client.exports.handle(TOPIC, number)

        async def is_there() -> bool:
            run = await handle.progress()
            at = run.progress.stage if run.progress is not None else ""
            late = at in STAGES and STAGES.index(at) >= STAGES.index(stage)
            return late or run.finished

        ends_s = time.monotonic() + PATIENCE_S
        while not await self._patiently(is_there):
            assert time.monotonic() < ends_s, f"run {number} does not come to {stage}"
            await asyncio.sleep(0.1)

    async def _until(self, what: Callable[[], bool]) -> None:
        ends_s = time.monotonic() + PATIENCE_S
        while not what():
            assert time.monotonic() < ends_s, self._cluster.tail("runner", 4000)
            await asyncio.sleep(0.05)

    async def _patiently(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Repeat a call through an outage."""
        ends_s = time.monotonic() + OUTAGE_S
        while True:
            try:
                return await call()
            except PacketboatError:
                if time.monotonic() > ends_s:
                    raise
                await asyncio.sleep(0.2)

    # -- actors --------------------------------------------------------------------------------

    def _start_runner(self, name: str) -> subprocess.Popen[bytes]:
        state_dir = self._cluster.root / f"runner-{time.monotonic_ns()}"
        program = (sys.executable, "-m", "tests.chaos.export_runner")
        return self._processes.start(
            [*program, self._lakes, state_dir, name],
            log=self._cluster.root / "runner.log",
            env={
                "PACKETBOAT_URL": self._url,
                "PACKETBOAT_TOKEN": self._cluster.token,
                "PYTHONPATH": str(ROOT),  # a driver works in a directory of its own
                FAULT: str(self._fault),
            },
        )

    def _of_driver(self, word: str) -> list[int]:
        driver = driver_of(self._runner.pid)
        return [pid for pid in session_of(driver) if word in command_of(pid)] if driver else []

    async def _publish(self) -> None:
        dice = random.Random(self._dice.random())
        while not self._calm.is_set():
            messages = [message(dice, self.published + place) for place in range(BATCH)]
            with contextlib.suppress(PacketboatError):
                receipts = await self._client.publish_batch(TOPIC, messages)
                self.published += sum(not isinstance(each, PacketboatError) for each in receipts)
            await asyncio.sleep(PAUSE_S)


def message(dice: random.Random, number: int) -> Outgoing:
    """Make a message.

    Fields of bodies come and go and change their types; some bodies are no JSON.
    """
    key, priority = f"k{number % 11}", number % PRIORITIES
    if dice.random() < 0.03:
        broken = dice.choice([b"{", b"[1]", b"\xff\xfe", b'{"number": }'])
        return Outgoing(data=broken, content_type="application/json", key=key, priority=priority)
    body: dict[str, Any] = {"number": number, "value": dice.choice([1, 2.5, "three", None, True])}
    for name in ("a", "b", "c"):
        if dice.random() < min(0.5, number / 5_000):
            body[name] = {"x": number, "y": [name, number / 2]}
    return Outgoing(data=body, key=key, priority=priority)


# -- processes ----------------------------------------------------------------------------------


def stat_of(pid: int) -> list[str] | None:
    """Return the fields of a process from the state on; None: it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None


def state_of(pid: int | None) -> str | None:
    fields = stat_of(pid) if pid is not None else None
    return fields[0] if fields else None


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def pids() -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            yield int(entry.name)


def driver_of(runner: int) -> int | None:
    """Return the driver of a runner that has one."""
    for pid in pids():
        fields = stat_of(pid)
        if fields and int(fields[1]) == runner and fields[0] != "Z":
            return pid
    return None


def session_of(leader: int | None) -> list[int]:
    """Return the processes of a driver: itself, Spark's JVM, Python workers."""
    found = [(pid, stat_of(pid)) for pid in pids()]
    return [pid for pid, fields in found if fields and int(fields[3]) == leader]


def send(targets: list[int], number: signal.Signals) -> None:
    for pid in targets:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def kill(pid: int | None) -> None:
    send([pid] if pid is not None else [], signal.SIGKILL)


def kill_all(targets: list[int]) -> None:
    send(targets, signal.SIGKILL)


async def run(root: Path, seed: int, faults: list[str]) -> tuple[ExportStorm, list[str]]:
    """Run a storm on a cluster of its own, which is thrown away; returns the storm and its
    faults.
    """
    async with ChaosCluster(root) as cluster:
        storm = ExportStorm(cluster, seed)
        try:
            await storm.prepare()
            await storm.suffer(faults)
            return storm, await storm.verify()
        except BaseException as error:
            for log in ("runner", "serve"):
                error.add_note(f"--- {log}\n{cluster.tail(log, 6000)}")
            raise
        finally:
            await storm.close()


def main() -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2, help="of all faults, each in its order")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--faults", nargs="*", help="these alone")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    dice = random.Random(given.seed)
    faults = [
        fault
        for _ in range(given.rounds)
        for fault in dice.sample(given.faults or FAULTS, len(given.faults or FAULTS))
    ]
    root = Path(tempfile.mkdtemp(prefix="packetboat-exports-"))
    root.chmod(0o755)
    try:
        storm, problems = asyncio.run(run(root, given.seed, faults))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    again = sum(attempts > 1 for attempts in storm.attempts.values())
    print(f"{storm.published} messages, {len(faults)} faults, {again} runs needed more attempts")
    print("\n".join(problems) or "each message is in the lake once, and no file is left over")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
