"""A runner with real driver processes, which do as they are told and need no Spark."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from packetboat.errors import NotAuthorized, Problem, UnknownOutcome
from packetboat.models.export_runs import LaneKey, LanePosition

from spark_exports.order import LakeSettings
from spark_exports.runner import run as run_module
from spark_exports.runner import runner as runner_module
from spark_exports.runner.runner import EXIT_REFUSED, Runner
from spark_exports.runner.settings import RunnerSettings
from spark_exports.runner.state_dir import StateDir
from tests.unit.spark_exports.runner.fake_platform import (
    TOKEN,
    FakePlatform,
    lease_lost,
    unreachable,
)

ROOT = Path(__file__).parents[4]
PASSWORD = "pa55-of-the-catalog"
LAKE = LakeSettings(
    "default",
    "/lake",
    {"type": "sql", "uri": f"postgresql+psycopg://lake:{PASSWORD}@127.0.0.1/lake"},
    spark_master="local[2]",
    spark_conf={"spark.executor.cores": "1"},
)
DRIVER = (sys.executable, "-m", "tests.unit.spark_exports.runner.fake_driver")
WAIT_S = 60.0


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'sdk/python'}")
    monkeypatch.setattr(run_module, "HEARTBEAT_S", 0.1)
    monkeypatch.setattr(run_module, "TELL_EVERY_S", 0.05)


@pytest.fixture
def settings() -> RunnerSettings:
    return RunnerSettings(
        lakes=Path("lakes.json"), driver=DRIVER, drain_seconds=0, grace_seconds=WAIT_S
    )


@asynccontextmanager
async def running(
    platform: FakePlatform, settings: RunnerSettings, directory: Path
) -> AsyncIterator[tuple[Runner, asyncio.Task[int]]]:
    """Yield a runner that is stopped after the block, and must leave nothing in its directory."""
    with StateDir(directory) as state_dir:
        runner = Runner(platform, {"default": LAKE}, "http://127.0.0.1:1", settings, state_dir)
        task = asyncio.create_task(runner.run())
        try:
            yield runner, task
            runner.stop()
            await asyncio.wait_for(task, WAIT_S)
            assert not left(directory)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def left(directory: Path) -> list[Path]:
    return list(directory.glob("run-*"))


async def until(what: Callable[[], Any]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not what():
            await asyncio.sleep(0.02)


def children() -> list[str]:
    """Sleeps and drivers that this process, or what it started, left."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if "fake_driver" in line or line.strip() == "sleep 600":
                    found.append(line)
    return found


async def carried_out(
    name: str, platform: FakePlatform, settings: RunnerSettings, tmp_path: Path
) -> None:
    uid = platform.add(name)
    async with running(platform, settings, tmp_path):
        await until(lambda: uid in platform.finished)


async def test_a_run_is_planned_carried_out_and_finished(
    settings: RunnerSettings, tmp_path: Path
) -> None:
    platform = FakePlatform()
    await carried_out("good", platform, settings, tmp_path)
    (finished,) = platform.finished.values()
    assert finished.state == "succeeded"
    assert finished.result is not None
    assert finished.result.rows == 10
    assert finished.positions == [LanePosition(LaneKey("t", "u", 0, 0), 15)]
    assert (finished.failure, finished.retry) == (None, False)
    assert "a line of the log\n" in platform.log


async def test_a_driver_has_neither_our_credential_nor_our_priority(
    settings: RunnerSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACKETBOAT_CLIENT_SECRET", "secret")
    monkeypatch.setenv("PACKETBOAT_EXPORT_FAIL_AT", "nowhere")
    platform = FakePlatform()
    given = dataclasses.replace(settings, driver_memory="3g")
    await carried_out("environment", platform, given, tmp_path)
    nice = min(os.nice(0) + 10, 19)
    conf = {"spark.driver.memory": "3g", "spark.executor.cores": "1"}
    assert f"['PACKETBOAT_EXPORT_FAIL_AT'] {nice} {conf}\n" in platform.log
    assert f"at {tmp_path}/run-" in platform.log


async def test_no_secret_gets_into_a_log(settings: RunnerSettings, tmp_path: Path) -> None:
    platform = FakePlatform()
    await carried_out("environment", platform, settings, tmp_path)
    assert "the token is ***\n" in platform.log
    await carried_out("fails", platform, settings, tmp_path)
    *_, finished = platform.finished.values()
    assert finished.failure is not None
    assert finished.failure.message == "with *** another attempt may do it"
    assert TOKEN not in platform.log


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [
        ("fails", "superseded", "another attempt"),
        ("dies", "driver-died", "SIGKILL\nthe last words"),
        ("babbles", "driver-broken", "this is no message"),
    ],
)
async def test_what_fails_says_why_and_may_be_tried_again(
    settings: RunnerSettings, tmp_path: Path, name: str, code: str, text: str
) -> None:
    platform = FakePlatform()
    await carried_out(name, platform, settings, tmp_path)
    (finished,) = platform.finished.values()
    assert finished.state == "failed"
    assert finished.failure is not None
    assert finished.failure.code == code
    assert text in finished.failure.message
    assert finished.retry
    assert not children()


async def test_a_driver_that_is_no_program_fails_the_run_only(
    settings: RunnerSettings, tmp_path: Path
) -> None:
    platform = FakePlatform()
    broken = dataclasses.replace(settings, driver=("/no/such/program",))
    await carried_out("good", platform, broken, tmp_path)
    (finished,) = platform.finished.values()
    assert finished.failure is not None
    assert finished.failure.code == "runner-failed"


async def test_what_is_cancelled_is_told_so_and_finished_as_that(
    settings: RunnerSettings, tmp_path: Path
) -> None:
    platform = FakePlatform()
    uid = platform.add("waits")
    async with running(platform, settings, tmp_path):
        await asyncio.wait_for(platform.planned.wait(), WAIT_S)
        platform.cancelled.add(uid)
        await until(lambda: platform.finished)
    assert platform.finished[uid].state == "cancelled"


async def test_what_was_committed_is_done_whatever_was_wanted_meanwhile(
    settings: RunnerSettings, tmp_path: Path
) -> None:
    platform = FakePlatform()
    uid = platform.add("commits")
    async with running(platform, settings, tmp_path):
        await asyncio.wait_for(platform.planned.wait(), WAIT_S)
        platform.cancelled.add(uid)
        await until(lambda: platform.finished)
    assert platform.finished[uid].state == "succeeded"


async def test_a_driver_that_does_not_end_is_killed_with_all_that_it_started(
    settings: RunnerSettings, tmp_path: Path
) -> None:
    platform = FakePlatform()
    uid = platform.add("deaf")
    hasty = dataclasses.replace(settings, grace_seconds=0.2)
    async with running(platform, hasty, tmp_path):
        await asyncio.wait_for(platform.planned.wait(), WAIT_S)
        await until(lambda: any("sleep 600" in line for line in children()))
        platform.cancelled.add(uid)
        await until(lambda: platform.finished)
        await until(lambda: not children())
    assert platform.finished[uid].state == "cancelled"


async def test_a_stop_gives_the_run_back(settings: RunnerSettings, tmp_path: Path) -> None:
    platform = FakePlatform()
    uid = platform.add("waits")
    async with running(platform, settings, tmp_path):
        await asyncio.wait_for(platform.planned.wait(), WAIT_S)
    finished = platform.finished[uid]
    assert finished.failure is not None
    assert (finished.state, finished.failure.code, finished.retry) == (
        "failed",
        "runner-stopped",
        True,
    )
    assert not children()


async def test_a_stop_waits_for_what_is_nearly_done(
    settings: RunnerSettings, tmp_path: Path
) -> None:
    platform = FakePlatform()
    uid = platform.add("good")
    patient = dataclasses.replace(settings, drain_seconds=WAIT_S)
    async with running(platform, patient, tmp_path):
        await asyncio.wait_for(platform.renewed.wait(), WAIT_S)
    assert platform.finished[uid].state == "succeeded"


async def test_a_lost_lease_ends_the_driver_and_nothing_is_said(
    settings: RunnerSettings, tmp_path: Path
) -> None:
    platform = FakePlatform()
    platform.add("waits")
    ended = asyncio.Event()

    def fault(call: str) -> None:
        if call == "renew" and platform.planned.is_set():
            ended.set()
            raise lease_lost()

    platform.fault = fault
    async with running(platform, settings, tmp_path):
        await asyncio.wait_for(ended.wait(), WAIT_S)
        await until(lambda: not children())
    assert not platform.finished
    assert platform.finishes == 0


async def test_a_platform_that_is_away_too_long_is_a_lost_lease(
    settings: RunnerSettings, tmp_path: Path
) -> None:
    platform = FakePlatform()
    platform.add("waits")

    def fault(call: str) -> None:
        if call == "renew" and platform.planned.is_set():
            raise unreachable()

    platform.fault = fault
    short = dataclasses.replace(settings, lease_seconds=1.0)
    async with running(platform, short, tmp_path):
        await asyncio.wait_for(platform.planned.wait(), WAIT_S)
        await until(lambda: not children())
    assert platform.finishes == 0


async def test_a_finish_is_told_until_it_is_answered(
    settings: RunnerSettings, tmp_path: Path
) -> None:
    platform = FakePlatform()

    def fault(call: str) -> None:
        if call == "finish" and platform.finishes < 3:
            raise UnknownOutcome("the answer did not come")

    platform.fault = fault
    await carried_out("good", platform, settings, tmp_path)
    assert platform.finishes == 3


async def test_a_driver_that_says_nothing_is_ended(
    settings: RunnerSettings, tmp_path: Path
) -> None:
    platform = FakePlatform()
    impatient = dataclasses.replace(settings, stall_seconds=1.5, grace_seconds=0.1)
    await carried_out("deaf", platform, impatient, tmp_path)
    (finished,) = platform.finished.values()
    assert finished.failure is not None
    assert (finished.failure.code, finished.retry) == ("driver-stalled", True)


async def test_a_loud_driver_is_bounded(settings: RunnerSettings, tmp_path: Path) -> None:
    platform = FakePlatform()
    await carried_out("loud", platform, settings, tmp_path)
    (finished,) = platform.finished.values()
    assert finished.state == "succeeded"
    assert "line 4999" in platform.log
    assert "lines left out" in platform.log


async def test_a_renewed_token_is_there_for_the_driver(
    settings: RunnerSettings, tmp_path: Path
) -> None:
    platform = FakePlatform()
    platform.add("waits")
    async with running(platform, settings, tmp_path):
        await asyncio.wait_for(platform.planned.wait(), WAIT_S)
        platform.token = "another-token"
        await until(
            lambda: [f.read_text() for f in tmp_path.glob("run-*/token")] == ["another-token"]
        )


async def test_a_platform_that_is_away_is_asked_again(
    settings: RunnerSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "FIRST_PAUSE_S", 0.01)
    platform = FakePlatform()

    def fault(call: str) -> None:
        if call == "claim" and platform.claims < 5:
            raise unreachable()

    platform.fault = fault
    await carried_out("good", platform, settings, tmp_path)


async def test_a_credential_that_is_refused_for_long_ends_the_runner(
    settings: RunnerSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(runner_module, "REFUSED_FOR_S", 0.1)
    platform = FakePlatform()

    def fault(call: str) -> None:
        raise NotAuthorized(Problem(title="run_exports is needed", status=403))

    platform.fault = fault
    async with running(platform, settings, tmp_path) as (_, task):
        assert await asyncio.wait_for(asyncio.shield(task), WAIT_S) == EXIT_REFUSED
    assert platform.claims > 1
