"""The runner, which claims runs up to its concurrency, and carries them out."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

import structlog
from packetboat import AsyncClient
from packetboat.errors import NotAuthorized, PacketboatError
from packetboat.models.export_runs import ClaimedExportRun

from spark_exports.order import LakeSettings
from spark_exports.runner import metrics
from spark_exports.runner.platform import ExportRuns, Platform
from spark_exports.runner.run import Attempt
from spark_exports.runner.settings import RunnerSettings
from spark_exports.runner.state_dir import StateDir

WAIT_S = 20.0
"""Seconds for which a claim waits for a run at the platform."""
FIRST_PAUSE_S = 0.5
MAX_PAUSE_S = 15.0
REFUSED_FOR_S = 60.0
EXIT_DONE = 0
EXIT_REFUSED = 78
"""Exit code of a runner that must not be started again before a change; the log says which."""
T = TypeVar("T")
log = structlog.get_logger()


class Runner:
    """The work of one runner process; `stop` may be called at any time."""

    def __init__(
        self,
        runs: ExportRuns,
        lakes: Mapping[str, LakeSettings],
        url: str,
        settings: RunnerSettings,
        state_dir: StateDir,
    ) -> None:
        self._runs = runs
        self._lakes = lakes
        self._url = url
        self._settings = settings
        self._state_dir = state_dir
        self._stopping = asyncio.Event()
        self._refused_since_s: float | None = None
        self._exit_code = EXIT_DONE

    def stop(self) -> None:
        """Claim nothing more; runs under way may end, and those that do not are given back."""
        self._stopping.set()

    async def run(self) -> int:
        """Claim and carry out runs until stopped; return the exit code."""
        log.info("runner-began", lakes=sorted(self._lakes), concurrency=self._settings.concurrency)
        async with asyncio.TaskGroup() as group:
            for _ in range(self._settings.concurrency):
                group.create_task(self._work())
        log.info("runner-ended", code=self._exit_code)
        return self._exit_code

    async def _work(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._stopping.is_set():
            try:
                claimed = await self._unless_stopped(self._claim())
            except PacketboatError as error:
                metrics.failed_calls.labels("claim").inc()
                log.warning("call-failed", call="claim", error=str(error))
                self._look_at(error)
                await self._unless_stopped(asyncio.sleep(random.uniform(pause_s / 2, pause_s)))
                pause_s = min(pause_s * 2, MAX_PAUSE_S)
                continue
            pause_s = FIRST_PAUSE_S
            if claimed is not None:
                await self._carry_out(claimed)

    async def _claim(self) -> ClaimedExportRun | None:
        claimed = await self._runs.claim(
            self._settings.name,
            sorted(self._lakes),
            lease_seconds=self._settings.lease_seconds,
            wait_seconds=WAIT_S,
        )
        self._refused_since_s = None
        metrics.heard.set_to_current_time()
        return claimed

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return the result of the work, or None if the runner is stopped before."""
        working = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else None
        finally:
            working.cancel()
            stopping.cancel()
            await asyncio.gather(working, stopping, return_exceptions=True)

    def _look_at(self, error: PacketboatError) -> None:
        """Stop the runner if its credential is refused for a minute.

        A credential without the permission does not get it by asking again; one that was just made
        may take some time.
        """
        if not isinstance(error, NotAuthorized):
            self._refused_since_s = None
            return
        now_s = time.monotonic()
        if self._refused_since_s is None:
            self._refused_since_s = now_s
        elif now_s - self._refused_since_s > REFUSED_FOR_S:
            log.error("runner-refused", error=str(error), needed="the permission run_exports")
            self._exit_code = EXIT_REFUSED
            self.stop()

    async def _carry_out(self, claimed: ClaimedExportRun) -> None:
        lake = self._lakes[claimed.export.lake]
        attempt = Attempt(self._runs, claimed, lake, self._url, self._settings, self._stopping)
        with metrics.drivers.track_inprogress():
            await attempt.carry_out(self._state_dir)


def run(settings: RunnerSettings, lakes: Mapping[str, LakeSettings]) -> int:
    """Run until SIGINT or SIGTERM; return the exit code.

    Raises StateDirInUse, OSError and ValueError if the runner cannot be started.
    """
    if settings.metrics_port:
        metrics.serve(
            settings.metrics_host, settings.metrics_port, old_names=settings.metrics_old_names
        )
    with StateDir(settings.state_dir) as state_dir:
        return asyncio.run(_run(settings, lakes, state_dir))


async def _run(
    settings: RunnerSettings, lakes: Mapping[str, LakeSettings], state_dir: StateDir
) -> int:
    loop = asyncio.get_running_loop()
    async with AsyncClient() as client:
        url = ",".join(client.options.urls)
        runner = Runner(Platform(client), lakes, url, settings, state_dir)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, runner.stop)
        return await runner.run()
