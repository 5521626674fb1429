"""The runner's end of a driver in this process: orders, plans from the log's ends, and hears."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import BinaryIO

import msgspec
from packetboat.models.export_runs import ExportSpec, LaneKey, LanePosition, LaneRange
from packetboat.models.exports import ExportKind
from pyspark.sql import SparkSession

from spark_exports.driver.drive import drive
from spark_exports.driver.lines import Lines
from spark_exports.driver.progress import Reporter
from spark_exports.driver.spark import Jobs
from spark_exports.order import (
    Cancel,
    Done,
    Failed,
    FromDriver,
    LakeSettings,
    Opened,
    Order,
    Progress,
    Ranges,
)
from tests.integration.exports.driver.fake_log import Log
from tests.integration.exports.driver.local_jobs import LocalJobs
from tests.integration.exports.driver.tables import TENANT

PATIENCE_S = 60.0


class ScriptedRunner:
    """Runs of one export against one log and one lake. Without Spark, tasks run right here."""

    def __init__(
        self, spark: SparkSession | None, log: Log, directory: Path, spec: ExportSpec
    ) -> None:
        self.spark = spark
        self.log = log
        self.directory = directory
        self.spec = spec
        self.number = 0
        self.progress: list[Progress] = []
        self._lines: Lines | None = None
        self._tell: BinaryIO | None = None

    @property
    def lake(self) -> LakeSettings:
        return LakeSettings(
            name="default",
            warehouse=str(self.directory / "warehouse"),
            catalog={"type": "sql", "uri": f"sqlite:///{self.directory}/catalog.db"},
            spark_master="local[2]",
        )

    def order(
        self,
        kind: ExportKind = "export",
        *,
        number: int | None = None,
        attempt: int = 1,
        ranges: list[LaneRange] | None = None,
    ) -> Order:
        """Return an order for the next run, or for run `number`."""
        if number is None:
            self.number += 1
        return Order(
            tenant=TENANT,
            number=number or self.number,
            attempt=attempt,
            kind=kind,
            export=self.spec,
            lake=self.lake,
            url="http://127.0.0.1:1",
            token="none",
            state_dir=str(self.directory),
            ranges=ranges,
        )

    def run(self, order: Order | None = None) -> Done | Failed:
        said = self.carry_out(order or self.order())
        assert isinstance(said, Done), said
        return said

    def carry_out(self, order: Order) -> Done | Failed:
        """Return the driver's last word."""
        to_driver, from_driver = os.pipe(), os.pipe()
        hearing = threading.Thread(target=self._answer, args=(order, from_driver[0], to_driver[1]))
        hearing.start()
        source, sink = os.fdopen(to_driver[0], "rb"), os.fdopen(from_driver[1], "wb")
        try:
            self._lines = Lines(source, sink)
            return drive(self._lines, self._start)
        finally:
            sink.close()
            hearing.join()

    def _start(self, order: Order, reporter: Reporter) -> Jobs:
        if self.spark is None:
            return LocalJobs(self.log, reporter)
        return Jobs(self.spark, self.log, reporter)

    def _answer(self, order: Order, heard: int, pipe: int) -> None:
        with os.fdopen(heard, "rb") as lines, os.fdopen(os.dup(pipe), "wb") as tell:
            os.close(pipe)
            tell.write(msgspec.json.encode(order) + b"\n")
            tell.flush()
            self._tell = tell
            for line in lines:
                message = msgspec.json.decode(line, type=FromDriver)
                if isinstance(message, Opened):
                    tell.write(msgspec.json.encode(Ranges(self.plan(message.positions))) + b"\n")
                    tell.flush()
                elif isinstance(message, Progress):
                    self.progress.append(message)

    def cancel(self) -> None:
        """Cancel from within the driver; return when the driver has heard of it."""
        assert self._tell is not None
        self._tell.write(msgspec.json.encode(Cancel()) + b"\n")
        self._tell.flush()
        self._wait()

    def hang_up(self) -> None:
        """Close the pipe to the driver, as a runner that died does."""
        assert self._tell is not None
        self._tell.close()
        self._wait()

    def _wait(self) -> None:
        assert self._lines is not None
        until_s = time.monotonic() + PATIENCE_S
        while not self._lines.is_stopped and time.monotonic() < until_s:
            time.sleep(0.01)

    def plan(self, positions: list[LanePosition]) -> list[LaneRange]:
        at = {one.key: one.offset for one in positions}
        return [
            LaneRange(key, at.get(key, 0), end)
            for key, end in self.log.ends.items()
            if at.get(key, 0) < end
        ]

    def all_ranges(self) -> list[LaneRange]:
        return [LaneRange(key, 0, end) for key, end in self.log.ends.items()]


def lane(topic: str = "orders", partition: int = 0) -> LaneKey:
    return LaneKey(topic, "uid-" + topic, partition, 0)
