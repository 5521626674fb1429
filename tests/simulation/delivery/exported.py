"""Each message of an export is in its table exactly once (P15), whatever its attempts come to.

Runners claim runs, plan, renew and finish them by the API, and commit to a simulated lake by the
product's own protocol. They read the log themselves, in the place of Spark. Attempts die at each
step. At least one, and some others, are given up when their files are written, and wake up once
another has committed.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
from packetboat.models.export_runs import LanePosition, LaneRange
from packetboat.models.exports import ExportResult

from spark_exports.driver.targets import after, has_run
from spark_exports.lake.commit import Commit
from spark_exports.lake.errors import LakeError, Superseded
from spark_exports.lake.table import LakeTable
from spark_exports.lake.written import WrittenFile
from tests.chaos.delivery.actor import Actor
from tests.chaos.delivery.caller import PAUSE_S, Caller, Reply
from tests.simulation.delivery.lake import Lake, Row

ALREADY = "an attempt of an export found its run in the table"
SUPERSEDED = "an attempt of an export was superseded"
LOST = "the answer of an export's commit was lost, and it was done"
OVERTAKEN = "an attempt of an export that was given up would commit after another"
SITUATIONS = (ALREADY, SUPERSEDED, LOST, OVERTAKEN)
RUNNERS = 2
LEASE_S = 1.0
"""Amid faults leases are short, so that many end."""
CALM_LEASE_S = 30.0
"""A lease lasts this long once all faults are healed, so that it outlasts an attempt's calls."""
EXPORTED_S = 100.0
"""Everything is exported within this time once all faults are healed."""
OVERTAKEN_S = 30.0
"""An attempt that is given up waits this long for another at most."""
STEPS = ("opened", "planned", "written", "committed")


class Gone(Exception):
    """The attempt ends without a word: it died, or its lease is over."""


@dataclass(slots=True)
class Attempt:
    """A runner holds a run for `lease_s` seconds, until `until_s` by its own clock."""

    run: dict[str, Any]
    until_s: float
    lease_s: float = LEASE_S
    dies_at: str = ""
    given_up: bool = False

    @property
    def path(self) -> str:
        return f"/export_runs/{self.run['uid']}"

    @property
    def lease(self) -> dict[str, Any]:
        return {"lease": self.run["lease"]}

    def reach(self, step: str) -> None:
        """Raises Gone if the attempt dies here."""
        if step == self.dies_at:
            raise Gone(step)


class Exported(Actor):
    name: ClassVar[str] = "exported"
    # Consumed messages would be gone, and could not be held against the table at the end.
    topic: ClassVar[dict[str, Any]] = {"retention": {"mode": "retain"}}

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._lake = Lake(self.dice)
        self._overtaken = False
        self._until_s = 0.0
        self._waiting = 0
        """The number of attempts that are given up and wait for another."""
        self._committed = asyncio.Event()
        """Somebody has committed since the last attempt was given up."""

    async def prepare(self, caller: Caller) -> None:
        await super().prepare(caller)
        spec = {"topic": self.name, "body": "raw", "maintain_cron": None}
        await caller.until_ok("PUT", f"/exports/{self.name}", spec)

    def extras(self) -> list[Callable[[asyncio.Event], Awaitable[None]]]:
        return [self._ask_for_runs, *[self._carry_out_runs] * RUNNERS]

    def _goes_on(self, published: asyncio.Event) -> bool:
        """Amid faults it may take until they are healed before an attempt is overtaken."""
        if not published.is_set():
            self._until_s = time.monotonic() + 2 * OVERTAKEN_S
            return True
        return not self._overtaken and time.monotonic() < self._until_s

    async def _ask_for_runs(self, published: asyncio.Event) -> None:
        caller = self.caller()
        while self._goes_on(published):
            await caller.call("POST", f"/exports/{self.name}:run")
            await asyncio.sleep(self.dice.uniform(0.2, 0.6))
        caller.close()

    async def _carry_out_runs(self, published: asyncio.Event) -> None:
        caller = self.caller()
        while self._goes_on(published):
            await self._carry_out_one(caller)
        caller.close()

    async def _carry_out_one(self, caller: Caller) -> None:
        asked_s = time.monotonic()
        lease_s = CALM_LEASE_S if self._lake.calm else LEASE_S
        wanted = {
            "runner": "simulated",
            "lakes": ["default"],
            "lease_seconds": lease_s,
            "wait_seconds": 0.5,
        }
        reply = await caller.call("POST", "/export_runs:claim", wanted)
        run = reply.body.get("run") if reply.ok else None
        if run is None:
            await asyncio.sleep(PAUSE_S)
            return
        attempt = Attempt(run, asked_s + lease_s, lease_s)
        if not self._lake.calm:
            attempt.dies_at = self.dice.choice((*STEPS, *[""] * 8)) if self._overtaken else ""
            # One runner at a time, so that another can go on.
            gives_up = not self._overtaken or self.dice.random() < 0.2
            attempt.given_up = gives_up and not self._waiting
        renewing = asyncio.create_task(self._renew(attempt))
        try:
            await self._attempt(caller, attempt)
        except Gone:
            return
        finally:
            renewing.cancel()
            await asyncio.wait([renewing])

    async def _attempt(self, caller: Caller, attempt: Attempt) -> None:
        """Export, and finish the run as it came out. Raises Gone."""
        try:
            done = await self._export(caller, attempt)
        except LakeError as error:
            self.sometimes.hit(SUPERSEDED, isinstance(error, Superseded))
            failure = {"code": error.code, "message": str(error) or error.code}
            failed = {"state": "failed", "failure": failure, "retry": error.retry}
            await self._tell(caller, attempt, ":finish", failed)
        else:
            await self._end(caller, attempt, done)

    async def _renew(self, attempt: Attempt) -> None:
        """An attempt that is given up renews nothing."""
        caller = self.caller()
        while not attempt.given_up and time.monotonic() < attempt.until_s:
            body = attempt.lease | {"lease_seconds": attempt.lease_s}
            reply = await caller.call("POST", f"{attempt.path}:renew", body)
            if reply.ok:
                attempt.until_s = reply.sent_s + attempt.lease_s
            elif reply.status == 409:
                break
            await asyncio.sleep(attempt.lease_s / 4)
        caller.close()

    async def _export(
        self, caller: Caller, attempt: Attempt
    ) -> tuple[ExportResult, list[LanePosition], list[LaneRange]]:
        """Take the steps of `spark_exports.driver.export`. Raises Gone, LakeError."""
        number, table = attempt.run["number"], self._lake.open()
        await asyncio.to_thread(table.refresh)
        attempt.reach("opened")
        had = has_run(table, number)
        if had is not None:
            self.sometimes.hit(ALREADY)
            return ExportResult(already=True, last_run=table.last_run), had, []
        positions = {"positions": msgspec.to_builtins(after(table, []))}
        planned = await self._tell(caller, attempt, ":plan", positions)
        ranges = msgspec.convert(planned.body["ranges"], list[LaneRange])
        attempt.reach("planned")
        if not ranges:
            return ExportResult(last_run=table.last_run), after(table, []), []
        files = [await self._write(attempt, table, each) for each in ranges]
        attempt.reach("written")
        if attempt.given_up:
            await self._until_overtaken()
        lost = self._lake.lost_done
        committed = await asyncio.to_thread(
            table.commit, Commit(number, attempt.run["attempt"], ranges, files)
        )
        self._committed.set()
        self.sometimes.hit(ALREADY, committed.already)
        self.sometimes.hit(LOST, self._lake.lost_done > lost)
        attempt.reach("committed")
        rows = sum(each.rows for each in files)
        result = ExportResult(rows, already=committed.already, last_run=table.last_run)
        return result, after(table, ranges), ranges

    async def _until_overtaken(self) -> None:
        self._committed.clear()
        self._waiting += 1
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(OVERTAKEN_S):
                await self._committed.wait()
                self.sometimes.hit(OVERTAKEN)
                self._overtaken = True
        self._waiting -= 1

    async def _write(self, attempt: Attempt, table: LakeTable, wanted: LaneRange) -> WrittenFile:
        """Read the range with the token of the run, and leave it in a file."""
        caller = Caller(self.site.port, attempt.run["token"], self.site.others)
        until_s = time.monotonic() + 10 * LEASE_S
        rows = await self._read(caller, wanted.key.partition, wanted.start, wanted.end, until_s)
        caller.close()
        marker = table.marker(attempt.run["attempt"])
        location = f"run-{attempt.run['number']}/attempt-{marker}/{wanted.key.partition}"
        self._lake.files[location] = tuple(rows)
        return WrittenFile(location, (), 0, len(rows), len(rows))

    async def _read(
        self, caller: Caller, partition: int, start: int, end: int | None, until_s: float
    ) -> list[Row]:
        """Raises Gone if the messages cannot be read in time."""
        path = f"/topics/{self.name}/partitions/{partition}/messages?max_messages=1000&offset="
        rows: list[Row] = []
        while end is None or start < end:
            reply = await caller.call("GET", f"{path}{start}")
            if reply.ok:
                found = [
                    Row(partition, each["offset"], each["data"]) for each in reply.body["messages"]
                ]
                if end is None and not found:
                    break
                rows += [row for row in found if end is None or row.offset < end]
                start = found[-1].offset + 1 if found else start
            elif time.monotonic() > until_s or reply.status in (401, 403, 404):
                raise Gone(f"{path}{start}: {reply}")
            else:
                await asyncio.sleep(PAUSE_S)
        return rows

    async def _end(
        self,
        caller: Caller,
        attempt: Attempt,
        done: tuple[ExportResult, list[LanePosition], list[LaneRange]],
    ) -> None:
        """Finish the run. All messages of its ranges must be in the table then."""
        result, positions, ranges = done
        body = {
            "state": "succeeded",
            "result": msgspec.to_builtins(result),
            "positions": msgspec.to_builtins(positions),
        }
        await self._tell(caller, attempt, ":finish", body)
        places = {(row.partition, row.offset) for row in self._lake.rows()}
        for each in ranges:
            wanted = {(each.key.partition, offset) for offset in range(each.start, each.end)}
            if wanted - places:
                self.broke(f"run {attempt.run['number']} left out {sorted(wanted - places)[:5]}")

    async def _tell(
        self, caller: Caller, attempt: Attempt, call: str, body: dict[str, Any]
    ) -> Reply:
        """Ask until it is answered. Raises Gone if the lease is over or the run is another's."""
        while True:
            reply = await caller.call("POST", attempt.path + call, attempt.lease | body)
            if reply.ok:
                return reply
            if reply.status == 409 or time.monotonic() > attempt.until_s:
                raise Gone(call)
            if reply.status not in (0, 429) and reply.status < 500:
                self.broke(f"{call} of a run was answered {reply.status}: {reply.body}")
                raise Gone(call)
            await asyncio.sleep(PAUSE_S)

    async def check(self, caller: Caller) -> None:
        self._lake.calm = True
        until_s = time.monotonic() + EXPORTED_S
        log: list[Row] = []
        for partition in range(2):
            log += await self._read(caller, partition, 0, None, until_s)
        while len(set(self._lake.rows())) < len(log) and time.monotonic() < until_s:
            await caller.call("POST", f"/exports/{self.name}:run")
            await self._carry_out_one(caller)
        self._judge(log)

    def _judge(self, log: list[Row]) -> None:
        """The table has each message of the log once, as it was published."""
        counts = Counter(self._lake.rows())
        for what, wrong in (
            ("are in the table more than once", [row for row, n in counts.items() if n > 1]),
            ("are not in the table", set(log) - counts.keys()),
            ("are in no log", counts.keys() - set(log)),
        ):
            if wrong:
                self.broke(f"{len(wrong)} messages {what}: {sorted(wrong)[:5]}")
