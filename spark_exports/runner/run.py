"""One attempt at a run: its driver, its lease, and its end.

The following holds if any of the processes dies:

- The driver commits its rows and the positions in one commit of the table, so nothing here decides
  what is in the table. A lease keeps two runners from doing the same work; without it they would
  still do no harm.
- A driver that has to end before it is done gets the order to commit nothing more, and is killed if
  it does not end in time, with all that it started.
- The end of a run is reported to the platform until it answers, as long as the lease lasts. If it
  does not answer, the next attempt opens the table, finds the commit, and ends as `already`.
"""

from __future__ import annotations

import asyncio
import enum
import time
from pathlib import Path

import structlog
from packetboat.models.export_runs import ClaimedExportRun, ExportLease
from packetboat.models.exports import ExportFailure

from spark_exports.order import (
    Cancel,
    Done,
    Failed,
    LakeSettings,
    Opened,
    Order,
    Progress,
    Ranges,
)
from spark_exports.runner import metrics
from spark_exports.runner.driver import BadLine, Driver, ending
from spark_exports.runner.driver_log import DriverLog
from spark_exports.runner.lease import Lease, LeaseLost, RunRefused
from spark_exports.runner.platform import EndState, ExportRuns
from spark_exports.runner.secrets import Redaction
from spark_exports.runner.settings import RunnerSettings, driver_environment
from spark_exports.runner.state_dir import StateDir

HEARTBEAT_S = 5.0
"""Seconds after which a cancelled run learns of it, at the latest."""
TELL_EVERY_S = 1.0
AFTER_LAST_WORD_S = 2.0
"""Seconds for a driver to end by itself after its answer."""
TOKEN_FILE = "token"
"""Name of the token's file in the run's directory, for tasks that read longer than a token
lasts.
"""
log = structlog.get_logger()


class Why(enum.Enum):
    """Reason for which a driver is ended before it is done."""

    CANCELLED = "cancelled"
    LEASE_LOST = "lease-lost"
    STOPPED = "runner-stopped"
    STALLED = "driver-stalled"
    REFUSED = "refused"


class Attempt:
    """A claimed run; call `carry_out` once."""

    def __init__(
        self,
        runs: ExportRuns,
        claimed: ClaimedExportRun,
        lake: LakeSettings,
        url: str,
        settings: RunnerSettings,
        stopping: asyncio.Event,
    ) -> None:
        self._runs = runs
        self._claimed = claimed
        self._lake = lake
        self._url = url
        self._settings = settings
        self._stopping = stopping
        self._lease = Lease(settings.lease_seconds)
        self._token = claimed.token
        self._hide = Redaction(lake, claimed.token)
        self._log = DriverLog()
        self._progress: Progress | None = None
        self._news = asyncio.Event()
        self._why: Why | None = None
        self._to_end = asyncio.Event()
        self._refusal: ExportFailure | None = None
        self._heard_s = time.monotonic()
        self._bound = log.bind(
            tenant=claimed.tenant,
            export=claimed.export.name,
            run=claimed.number,
            kind=claimed.kind,
            attempt=claimed.attempt,
        )

    async def carry_out(self, state_dir: StateDir) -> str:
        """Do the run, and return how it ended.

        The end is `succeeded`, `failed`, `cancelled`, or `lost` if it could not be reported to the
        platform.
        """
        began_s = time.monotonic()
        self._bound.info("run-began")
        try:
            with state_dir.of_run(self._claimed.uid, self._claimed.attempt) as directory:
                said = await self._drive(directory)
        except Exception as error:
            # A run that cannot be carried out must not keep others from it.
            self._bound.exception("run-not-carried-out")
            said = Failed("runner-failed", self._hide(str(error) or repr(error)), retry=True)
        end = await self._finish(said)
        metrics.runs.labels(self._claimed.kind, end).inc()
        metrics.seconds.labels(self._claimed.kind).observe(time.monotonic() - began_s)
        return end

    async def _drive(self, directory: Path) -> Done | Failed:
        """Return the driver's answer, or the answer for a driver that ended without one."""
        settings = self._settings
        if self._stopping.is_set():
            self._end_for(Why.STOPPED)
            return Failed(Why.STOPPED.value, "", retry=True)
        driver = await Driver.start(
            settings.driver,
            driver_environment(directory),
            directory,
            nice=settings.driver_nice if self._lake.spark_master.startswith("local") else 0,
        )
        self._bound.info("driver-started", driver=driver.pid)
        said: Done | Failed | None = None
        code = 0
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(driver.log_into(self._take_line))
                helpers = [
                    group.create_task(self._keep_lease(directory)),
                    group.create_task(self._stop()),
                    group.create_task(self._look_for_stall()),
                    group.create_task(self._end_early(driver)),
                    group.create_task(driver.clear_up()),
                ]
                try:
                    await driver.tell(self._order(directory))
                    said = await self._hear(driver)
                except BadLine as error:
                    said = Failed("driver-broken", str(error), retry=True)
                finally:
                    code = await driver.end(AFTER_LAST_WORD_S if said is not None else 0)
                    for helper in helpers:
                        helper.cancel()
        finally:
            driver.kill()
        self._bound.info("driver-ended", driver=driver.pid, code=code)
        return said or Failed("driver-died", self._last_words(code), retry=True)

    def _order(self, directory: Path) -> Order:
        claimed = self._claimed
        lake = self._lake
        if self._settings.driver_memory:
            conf = {"spark.driver.memory": self._settings.driver_memory} | lake.spark_conf
            lake = LakeSettings(
                lake.name, lake.warehouse, lake.catalog, lake.storage, lake.spark_master, conf
            )
        return Order(
            tenant=claimed.tenant,
            number=claimed.number,
            attempt=claimed.attempt,
            kind=claimed.kind,
            export=claimed.export,
            lake=lake,
            url=self._url,
            token=claimed.token,
            state_dir=str(directory),
            ranges=None if claimed.ranges is None else list(claimed.ranges),
        )

    async def _hear(self, driver: Driver) -> Done | Failed | None:
        """Handle messages until the answer, and return it; None if the driver ended without one."""
        while (message := await driver.hear()) is not None:
            self._heard_s = time.monotonic()
            if isinstance(message, Done | Failed):
                return message
            if isinstance(message, Progress):
                self._progress = message
                self._news.set()
            else:
                await self._plan(driver, message)
        return None

    async def _plan(self, driver: Driver, opened: Opened) -> None:
        claimed = self._claimed
        try:
            ranges = await self._lease.try_while_it_lasts(
                "plan", lambda: self._runs.plan(claimed.uid, claimed.lease, opened.positions)
            )
        except LeaseLost:
            self._end_for(Why.LEASE_LOST)
        except RunRefused as error:
            self._refusal = ExportFailure(error.code, str(error))
            self._end_for(Why.REFUSED)
        else:
            self._bound.info("run-planned", messages=sum(one.end - one.start for one in ranges))
            await driver.tell(Ranges(ranges))

    def _take_line(self, line: str) -> None:
        self._heard_s = time.monotonic()
        self._log.add(self._hide(line))
        self._news.set()

    async def _keep_lease(self, directory: Path) -> None:
        """Renew at once, then soon after there is something to report, and otherwise by the
        heartbeat.
        """
        pause_s = min(HEARTBEAT_S, self._settings.lease_seconds / 3)
        while True:
            try:
                renewed = await self._renew()
            except (LeaseLost, RunRefused):
                self._end_for(Why.LEASE_LOST)
                return
            if renewed.token != self._token:
                self._token = renewed.token
                self._hide = Redaction(self._lake, self._claimed.token, renewed.token)
                _leave_token(directory, renewed.token)
            if renewed.cancelled:
                self._end_for(Why.CANCELLED)
            await asyncio.sleep(min(TELL_EVERY_S, pause_s))
            try:
                async with asyncio.timeout(pause_s - min(TELL_EVERY_S, pause_s)):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def _renew(self) -> ExportLease:
        """Renew the lease, with progress and log. Raises LeaseLost or RunRefused."""
        self._news.clear()
        progress, text = self._progress, self._log.take()

        async def renew() -> ExportLease:
            asked_s = time.monotonic()
            renewed = await self._runs.renew(
                self._claimed.uid,
                self._claimed.lease,
                lease_seconds=self._settings.lease_seconds,
                progress=progress,
                log=text,
            )
            self._lease.extend(asked_s)
            return renewed

        renewed = await self._lease.try_while_it_lasts("renew", renew)
        metrics.heard.set_to_current_time()
        return renewed

    async def _stop(self) -> None:
        await self._stopping.wait()
        await asyncio.sleep(self._settings.drain_seconds)
        self._end_for(Why.STOPPED)

    async def _look_for_stall(self) -> None:
        patience_s = self._settings.stall_seconds
        if not patience_s:
            return
        # Wake only when patience may be over: a driver writes something every few seconds.
        while (left_s := self._heard_s + patience_s - time.monotonic()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(left_s)
        self._end_for(Why.STALLED)

    def _end_for(self, why: Why) -> None:
        """End the driver for a reason; the first reason counts."""
        if self._why is None:
            self._why = why
            self._to_end.set()

    async def _end_early(self, driver: Driver) -> None:
        await self._to_end.wait()
        self._bound.info("driver-told-to-end", why=self._why and self._why.value)
        await driver.tell(Cancel())
        await driver.end(self._settings.grace_seconds)

    def _last_words(self, code: int) -> str:
        tail = self._log.tail
        return f"the driver ended without a word: {ending(code)}" + (f"\n{tail}" if tail else "")

    async def _finish(self, said: Done | Failed) -> str:
        """Report the end to the platform; return how the run ended."""
        state, failure, retry = self._verdict(said, self._why)
        if self._why is Why.LEASE_LOST:
            self._bound.warning("run-lost", said=state)
            return "lost"
        done = said if isinstance(said, Done) else None
        claimed, text = self._claimed, self._log.take_last()
        try:
            await self._lease.try_while_it_lasts(
                "finish",
                lambda: self._runs.finish(
                    claimed.uid,
                    claimed.lease,
                    state,
                    result=None if done is None else done.result,
                    positions=None if done is None else done.positions,
                    failure=failure,
                    retry=retry,
                    log=text,
                ),
            )
        except (LeaseLost, RunRefused) as error:
            # The table has the rows that were committed, and the next attempt finds them there.
            self._bound.warning("run-lost", said=state, error=str(error))
            return "lost"
        metrics.heard.set_to_current_time()
        told: dict[str, object] = {"rows": done.result.rows} if done else {}
        if failure is not None:
            told = {"code": failure.code, "message": failure.message, "retry": retry}
        self._bound.info("run-finished", state=state, **told)
        return state

    def _verdict(
        self, said: Done | Failed, why: Why | None
    ) -> tuple[EndState, ExportFailure | None, bool]:
        """Return the state, the failure, and whether another attempt may succeed.

        A run that committed has succeeded, even if it was to be ended meanwhile.
        """
        if isinstance(said, Done):
            return "succeeded", None, False
        if why is Why.CANCELLED:
            return "cancelled", None, False
        if why is Why.REFUSED and self._refusal is not None:
            return "failed", self._refusal, False
        if why is Why.STOPPED:
            return "failed", ExportFailure(why.value, "the runner was stopped"), True
        if why is Why.STALLED:
            quiet_s = self._settings.stall_seconds
            text = f"the driver said nothing for {quiet_s:.0f} s\n{self._log.tail}"
            return "failed", ExportFailure(why.value, text), True
        return "failed", ExportFailure(said.code, self._hide(said.message)), said.retry


def _leave_token(directory: Path, token: str) -> None:
    """Replace the token file; a reader sees the old token or the new one."""
    new = directory / f"{TOKEN_FILE}.new"
    new.touch(mode=0o600)
    new.write_text(token)
    new.replace(directory / TOKEN_FILE)
