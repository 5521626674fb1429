"""The driver as runners start it, against a real platform: a kill, the next attempt, a comparison
of log and table; and a run whose tasks are on a cluster."""

from __future__ import annotations

import signal
from pathlib import Path

from packetboat.models.export_runs import LaneKey

from spark_exports.order import Done, Failed, Progress
from tests.e2e.installation import Installation
from tests.integration.exports.driver.driver_process import MESSAGES, SPEC, Process, check
from tests.integration.exports.driver.tables import rows
from tests.spark_cluster import SparkCluster


def test_a_killed_run_is_finished_by_the_next_attempt(
    installation: Installation, ends: dict[LaneKey, int], tmp_path: Path
) -> None:
    driver = Process(installation, tmp_path, ends)
    heard = driver.run(driver.order(1), fail_at="rejects_committed")
    assert driver.code == -signal.SIGKILL, driver.log
    assert not any(isinstance(one, Done | Failed) for one in heard)
    assert rows(driver.lake, SPEC) == []

    heard = driver.run(driver.order(1, attempt=2))
    done = heard[-1]
    assert isinstance(done, Done), (done, driver.log)
    assert driver.code == 0
    assert (done.result.rows, done.result.rejected) == (270, 30)
    stages = list(dict.fromkeys(one.stage for one in heard if isinstance(one, Progress)))
    assert stages == ["starting", "opening", "planning", "writing", "committing"]
    assert {one.key: one.offset for one in done.positions} == ends
    assert "stage: writing" in driver.log
    check(installation, driver.lake)

    heard = driver.run(driver.order(2, kind="reconcile"))
    done = heard[-1]
    assert isinstance(done, Done), (done, driver.log)
    assert (done.result.rows, done.result.differences) == (MESSAGES, ())


def test_a_run_on_a_cluster(
    installation: Installation, ends: dict[LaneKey, int], tmp_path: Path
) -> None:
    with SparkCluster(tmp_path / "cluster").started() as cluster:
        driver = Process(installation, tmp_path, ends, cluster)
        done = driver.run(driver.order(1))[-1]
        assert isinstance(done, Done), (done, driver.log, cluster.log)
        assert (done.result.rows, done.result.rejected) == (270, 30)
        assert "Asked to launch executor" in cluster.log
    check(installation, driver.lake)
