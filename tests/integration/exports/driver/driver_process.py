"""The driver as runners start it: lines in, lines out, against a real platform and its log."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import requests
from packetboat.models.export_runs import LaneKey, LaneRange
from packetboat.models.exports import ExportKind

from harness.export_specs import spec_of
from spark_exports.fail_points import VARIABLE
from spark_exports.order import FromDriver, FromRunner, LakeSettings, Opened, Order, Ranges
from tests.e2e.installation import Installation
from tests.integration.exports.driver.tables import TENANT, rejects, rows
from tests.spark_cluster import SparkCluster

TOPIC = "driver-orders"
PARTITIONS = 2
MESSAGES = 300
SPEC = spec_of(name="all-orders", topic=TOPIC, table="orders")


def published(installation: Installation) -> dict[LaneKey, int]:
    """Return the ends of a log in which every tenth body is no JSON."""
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
    """Drivers of one lake, one after the other; each from its order to its end."""

    def __init__(
        self,
        installation: Installation,
        directory: Path,
        ends: dict[LaneKey, int],
        cluster: SparkCluster | None = None,
    ) -> None:
        """Without a cluster, tasks run in the driver's own JVM."""
        self.installation = installation
        self.directory = directory
        self.spec = SPEC
        self.ranges = [LaneRange(key, 0, end) for key, end in ends.items()]
        self.lake = LakeSettings(
            name="default",
            warehouse=str(directory / "warehouse"),
            catalog={"type": "sql", "uri": f"sqlite:///{directory}/catalog.db"},
            spark_master="local[2]" if cluster is None else cluster.master,
            spark_conf={"spark.driver.memory": "1g"} if cluster is None else cluster.conf,
        )
        self.log = ""
        self.code = 0
        self.process: subprocess.Popen[bytes] | None = None

    def order(self, number: int, attempt: int = 1, *, kind: ExportKind = "export") -> Order:
        """Return an order with a directory of its own."""
        state_dir = self.directory / f"run-{number}-{attempt}"
        state_dir.mkdir()
        return Order(
            tenant=TENANT,
            number=number,
            attempt=attempt,
            kind=kind,
            export=self.spec,
            lake=self.lake,
            url=self.installation.url,
            token=self.installation.token,
            state_dir=str(state_dir),
            ranges=None if kind == "export" else self.ranges,
        )

    def run(
        self,
        order: Order,
        *,
        fail_at: str = "",
        hear: Callable[[FromDriver], None] = lambda message: None,
    ) -> list[FromDriver]:
        """Return all messages of the driver. `hear` is called with each message when it comes."""
        said = []
        with (Path(order.state_dir) / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "spark_exports.driver"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=os.environ | {VARIABLE: fail_at},
            )
            assert self.process.stdin is not None
            assert self.process.stdout is not None
            self.tell(order)
            for line in self.process.stdout:
                said.append(msgspec.json.decode(line, type=FromDriver))
                if isinstance(said[-1], Opened):
                    self.tell(Ranges(self.ranges))
                hear(said[-1])
            self.process.stdin.close()
            self.process.stdout.close()
            self.code = self.process.wait()
        self.log = (Path(order.state_dir) / "log").read_text()
        return said

    def tell(self, message: FromRunner) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(message) + b"\n")
        self.process.stdin.flush()


def check(installation: Installation, lake: LakeSettings) -> None:
    """The tables have, row by row, what the API says."""
    with installation.session() as session:
        log = {
            (partition, one["offset"]): one
            for partition in range(PARTITIONS)
            for one in read(session, installation, partition)["messages"]
        }
    for row in rows(lake, SPEC):
        told = log.pop((row["partition"], row["offset"]))
        assert (row["message_id"], row["key"]) == (told["message_id"], told["key"])
        assert {"id": row["id"], "half": row["half"]} == told["data"]
        assert row["publish_time"].isoformat()[:19] == told["publish_time"][:19]
    assert sorted(log) == [(row["partition"], row["offset"]) for row in rejects(lake, SPEC)]
    assert {row["data"] for row in rejects(lake, SPEC)} == {b"no"}
