"""The driver as runners start it, against a real platform: lines, a kill, the next attempt, and a
comparison of log and table."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests

from spark_exports.fail_points import VARIABLE
from spark_exports.order import (
    Done,
    ExportSpec,
    Failed,
    FromDriver,
    LakeSettings,
    LaneKey,
    Opened,
    Order,
    Progress,
    Range,
    Ranges,
    RunKind,
)
from tests.e2e.installation import Installation
from tests.integration.exports.driver.tables import TENANT, rejects, rows

TOPIC = "driver-orders"
PARTITIONS = 2
MESSAGES = 300
SPEC = ExportSpec(name="all-orders", topic=TOPIC, table="orders")


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    installation = Installation(tmp_path_factory.mktemp("driver") / "data").start()
    try:
        yield installation
    finally:
        installation.stop()


@pytest.fixture(scope="module")
def ends(installation: Installation) -> dict[LaneKey, int]:
    """The log's, with every tenth body no JSON."""
    with installation.session() as session:
        topics = f"{installation.url}/topics"
        made = session.post(topics, json={"name": TOPIC, "partitions": PARTITIONS})
        assert made.status_code == 201, made.text
        for start in range(0, MESSAGES, 100):
            messages = [message(number) for number in range(start, start + 100)]
            done = session.post(f"{topics}/{TOPIC}/messages:batch", json={"messages": messages})
            assert done.status_code == 200, done.text
        found = {}
        for partition in range(PARTITIONS):
            page = read(session, installation, partition)
            found[LaneKey(TOPIC, "", partition, 0)] = page["end_offset"]
        assert sum(found.values()) == MESSAGES
        return found


def message(number: int) -> dict[str, Any]:
    if number % 10 == 9:
        return {"data_base64": "bm8=", "content_type": "application/json", "key": f"k{number % 7}"}
    return {"data": {"id": number, "half": number / 2}, "key": f"k{number % 7}"}


def read(session: requests.Session, at: Installation, partition: int) -> dict[str, Any]:
    url = f"{at.url}/topics/{TOPIC}/partitions/{partition}/messages"
    answer = session.get(url, params={"offset": "0", "max_messages": "1000"})
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json()
    return page


class Process:
    """One driver, from its order to its end."""

    def __init__(
        self, installation: Installation, directory: Path, ends: dict[LaneKey, int]
    ) -> None:
        self.installation = installation
        self.directory = directory
        self.ends = ends
        self.lake = LakeSettings(
            name="default",
            warehouse=str(directory / "warehouse"),
            catalog={"type": "sql", "uri": f"sqlite:///{directory}/catalog.db"},
            spark_master="local[2]",
            spark_conf={"spark.driver.memory": "1g"},
        )
        self.log = ""
        self.code = 0

    def run(
        self, number: int, attempt: int = 1, *, kind: RunKind = "export", fail_at: str = ""
    ) -> list[FromDriver]:
        state_dir = self.directory / f"run-{number}-{attempt}"
        state_dir.mkdir()
        ranges = [Range(key, 0, end) for key, end in self.ends.items()]
        order = Order(
            tenant=TENANT,
            number=number,
            attempt=attempt,
            kind=kind,
            export=SPEC,
            lake=self.lake,
            url=self.installation.url,
            token=self.installation.token,
            state_dir=str(state_dir),
            ranges=None if kind == "export" else ranges,
        )
        with (state_dir / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "spark_exports.driver"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=os.environ | {VARIABLE: fail_at},
            )
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(msgspec.json.encode(order) + b"\n")
            process.stdin.flush()
            heard = []
            for line in process.stdout:
                heard.append(msgspec.json.decode(line, type=FromDriver))
                if isinstance(heard[-1], Opened):
                    process.stdin.write(msgspec.json.encode(Ranges(ranges)) + b"\n")
                    process.stdin.flush()
            process.stdin.close()
            self.code = process.wait()
        self.log = (state_dir / "log").read_text()
        return heard


def test_a_killed_run_is_finished_by_the_next_attempt(
    installation: Installation, ends: dict[LaneKey, int], tmp_path: Path
) -> None:
    driver = Process(installation, tmp_path, ends)
    heard = driver.run(1, fail_at="rejects_committed")
    assert driver.code == -signal.SIGKILL, driver.log
    assert not any(isinstance(one, Done | Failed) for one in heard)
    assert rows(driver.lake, SPEC) == []

    heard = driver.run(1, attempt=2)
    done = heard[-1]
    assert isinstance(done, Done), (done, driver.log)
    assert driver.code == 0
    assert (done.result.rows, done.result.rejected) == (270, 30)
    stages = list(dict.fromkeys(one.stage for one in heard if isinstance(one, Progress)))
    assert stages == ["starting", "opening", "planning", "writing", "committing"]
    assert {one.key: one.offset for one in done.positions} == ends
    assert "stage: writing" in driver.log
    check(installation, driver)

    heard = driver.run(2, kind="reconcile")
    done = heard[-1]
    assert isinstance(done, Done), (done, driver.log)
    assert (done.result.rows, done.result.differences) == (MESSAGES, [])


def check(installation: Installation, driver: Process) -> None:
    """Row by row what the API says."""
    with installation.session() as session:
        log = {
            (partition, one["offset"]): one
            for partition in range(PARTITIONS)
            for one in read(session, installation, partition)["messages"]
        }
    found = rows(driver.lake, SPEC)
    for row in found:
        told = log.pop((row["partition"], row["offset"]))
        assert (row["message_id"], row["key"]) == (told["message_id"], told["key"])
        assert {"id": row["id"], "half": row["half"]} == told["data"]
        assert row["publish_time"].isoformat()[:19] == told["publish_time"][:19]
    assert sorted(log) == [(row["partition"], row["offset"]) for row in rejects(driver.lake, SPEC)]
    assert {row["data"] for row in rejects(driver.lake, SPEC)} == {b"no"}
