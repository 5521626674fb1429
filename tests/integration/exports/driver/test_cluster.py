"""Runs on a cluster: one that is stopped stops there, too, and one may last longer than its tokens.

Those take minutes (`make test-long`); that a run comes to its end there is in test_driver_process.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec
import pytest
import requests
from packetboat.models.export_runs import LaneKey, LanePosition, LaneRange
from pyspark.sql import DataFrame, SparkSession

from spark_exports.driver import export
from spark_exports.driver.platform import TOKEN_FILE, HttpPlatform
from spark_exports.driver.progress import Reporter
from spark_exports.driver.slices import sliced
from spark_exports.driver.spark import Jobs
from spark_exports.order import Cancel, Done, Failed, FromDriver, Order, Progress
from tests.e2e.installation import Installation
from tests.integration.exports.driver.driver_process import SPEC, TOPIC, Process, check
from tests.integration.exports.driver.fake_log import Log
from tests.integration.exports.driver.scripted_runner import ScriptedRunner
from tests.integration.exports.driver.tables import rows
from tests.spark_cluster import PATIENCE_S, SparkCluster
from tests.spark_session import spark_session

SLICE = 40
SLOW = msgspec.structs.replace(SPEC, max_bytes_per_second=100)
"""An export whose reading takes minutes."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("cluster") / "own").started() as cluster:
        yield cluster


def until(met: Callable[[], bool], cluster: SparkCluster) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not met():
        assert time.monotonic() < deadline_s, (cluster.tasks(), cluster.log)
        time.sleep(0.1)


def cancel(driver: Process) -> None:
    driver.tell(Cancel())


def kill(driver: Process) -> None:
    assert driver.process is not None
    driver.process.kill()


@pytest.mark.parametrize(
    ("stop", "said_last", "code"), [(cancel, Failed, 1), (kill, Progress, -signal.SIGKILL)]
)
def test_what_is_stopped_does_not_go_on_there(
    installation: Installation,
    ends: dict[LaneKey, int],
    cluster: SparkCluster,
    tmp_path: Path,
    stop: Callable[[Process], None],
    said_last: type[FromDriver],
    code: int,
) -> None:
    """Also where nobody could tell it: its driver's end ends the application."""
    driver = Process(installation, tmp_path, ends, cluster)
    driver.spec = SLOW
    stopped = False

    def hear(said: FromDriver) -> None:
        nonlocal stopped
        pythons = [line for line in cluster.tasks().values() if "pyspark.daemon" in line]
        # The daemon itself, and at least one that reads.
        if not stopped and len(pythons) > 1:
            stopped = True
            stop(driver)

    said = driver.run(driver.order(1), hear=hear)
    assert isinstance(said[-1], said_last), (said[-1], driver.log)
    assert (stopped, driver.code) == (True, code)
    until(lambda: not cluster.tasks(), cluster)
    assert rows(driver.lake, SPEC) == []


class Renewing(HttpPlatform):
    """Between its first two jobs the token that it had ends, and a newer one is there."""

    def __init__(self, order: Order, renew: Callable[[], str]) -> None:
        super().__init__(order)
        self.jobs: list[int] = []
        self._token_path = Path(order.state_dir) / TOKEN_FILE
        self._renew = renew

    def messages(self, spark: SparkSession, slices: Sequence[LaneRange]) -> DataFrame:
        if len(self.jobs) == 1:
            self._token_path.write_text(self._renew())
        self.jobs.append(len(slices))
        return super().messages(spark, slices)


class Runner(ScriptedRunner):
    """A runner that carries out orders of its own on a real Spark and a real platform."""

    def __init__(
        self, spark: SparkSession, platform: HttpPlatform, ranges: list[LaneRange], directory: Path
    ) -> None:
        super().__init__(spark, Log(), directory, SPEC)
        self._platform = platform
        self._ranges = ranges

    def plan(self, positions: list[LanePosition]) -> list[LaneRange]:
        return self._ranges

    def _start(self, order: Order, reporter: Reporter) -> Jobs:
        assert self.spark is not None
        return Jobs(self.spark, self._platform, reporter)


def test_a_run_outlasts_its_token(
    installation: Installation,
    ends: dict[LaneKey, int],
    cluster: SparkCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = Process(installation, tmp_path, ends, cluster)
    with installation.session() as session:
        keys = f"{installation.url}/keys"
        body = {"name": "first-token", "scopes": [f"read:topics/{TOPIC}"]}
        made = session.post(keys, json=body)
        assert made.status_code == 201, made.text
    first = {"Authorization": f"Bearer {made.json()['key']}"}

    def renew() -> str:
        with installation.session() as session:
            assert session.delete(f"{keys}/first-token").status_code == 204
        topic = f"{installation.url}/topics/{TOPIC}"
        until(lambda: requests.get(topic, headers=first, timeout=30).status_code == 401, cluster)
        return installation.token

    order = msgspec.structs.replace(driver.order(1), token=made.json()["key"])
    monkeypatch.setattr(export, "sliced", partial(sliced, messages=SLICE))
    platform = Renewing(order, renew)
    with spark_session(Path(order.state_dir), order.lake) as spark:
        done = Runner(spark, platform, driver.ranges, tmp_path).carry_out(order)
    assert isinstance(done, Done), done
    assert (done.result.rows, done.result.rejected) == (270, 30)
    slices = [-(-(one.end - one.start) // SLICE) for one in driver.ranges]
    assert len(platform.jobs) > 1
    assert sum(platform.jobs) == sum(slices)
    check(installation, driver.lake)
