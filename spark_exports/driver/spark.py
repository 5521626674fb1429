"""Spark, as a run uses it: messages of slices as a DataFrame, tasks over them, tasks over anything.

Nothing is decoded by Spark itself. `from_json` takes 7 µs a row where the readers of `bodies` take
3, needs the types found before in a pass of its own (5 µs more), and says neither that it rounded a
number nor that a member occurred twice. Spark's part is what it is good at: many tasks, on one
machine or on many, each tried again where it was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from spark_exports.driver.slice_task import OUTCOME, Outcome, SliceTask
from spark_exports.driver.slices import SLICE_MESSAGES
from spark_exports.order import Order, Range
from spark_exports.session import is_local

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.accumulators import Accumulator
    from pyspark.sql import DataFrame, SparkSession

    from spark_exports.driver.progress import Reporter

T = TypeVar("T")
R = TypeVar("R")
Read = Callable[["SparkSession", Order, Sequence[Range]], "DataFrame"]
"""Messages of slices, each slice a partition, in the order of offsets."""
TOKEN_FILE = "token"
_encoder = msgspec.json.Encoder()


def from_platform(spark: SparkSession, order: Order, slices: Sequence[Range]) -> DataFrame:
    """By the data source `packetboat`."""
    from packetboat.spark import register

    register(spark)
    spec = order.export
    options = {
        "url": order.url,
        "ranges": _encoder.encode(slices).decode(),
        "rows_per_split": str(SLICE_MESSAGES),
        **_credential(order),
    }
    if spec.filter is not None:
        options["filter"] = spec.filter
    if spec.max_bytes_per_second is not None:
        options["max_bytes_per_second"] = str(spec.max_bytes_per_second)
    return spark.read.format("packetboat").options(**options).load()


def fresh_token(order: Order) -> str:
    """The runner leaves a newer one in a file."""
    file = Path(order.state_dir) / TOKEN_FILE
    return (file.read_text() if file.exists() else "") or order.token


def _credential(order: Order) -> dict[str, str]:
    """Where workers see our files, they follow the runner's; elsewhere a token has to last."""
    if not is_local(order.lake.spark_master):
        return {"token": fresh_token(order)}
    file = Path(order.state_dir) / TOKEN_FILE
    if not file.exists():
        file.touch(mode=0o600)
        file.write_text(order.token)
    return {"token_file": str(file)}


class Jobs:
    """The jobs of one run. `cancel` may be called from any thread."""

    def __init__(
        self, spark: SparkSession, order: Order, reporter: Reporter, read: Read = from_platform
    ) -> None:
        self.spark = spark
        self._order = order
        self._reporter = reporter
        self._read = read

    def cancel(self) -> None:
        self.spark.sparkContext.cancelAllJobs()

    def messages(self, slices: Sequence[Range]) -> DataFrame:
        return self._read(self.spark, self._order, slices)

    @contextmanager
    def kept_messages(self, slices: Sequence[Range]) -> Iterator[DataFrame]:
        """Read from the platform once, however often they are used."""
        from pyspark import StorageLevel

        messages = self.messages(slices).persist(StorageLevel.DISK_ONLY)
        try:
            yield messages
        finally:
            messages.unpersist()

    def outcomes(
        self,
        messages: DataFrame,
        task: Callable[[Callable[[int, int], None]], SliceTask],
        done: int = 0,
    ) -> list[Outcome]:
        """What tasks gave, of each slice. `task` makes one of what it is to tell its counts to;
        `done`: messages that were read before."""
        count, size_bytes = self._counters(done)
        rows = messages.mapInArrow(task(partial(_add, count, size_bytes)), OUTCOME).collect()
        return [msgspec.msgpack.decode(bytes(row.outcome), type=Outcome) for row in rows]

    def _counters(self, done: int) -> tuple[Accumulator[int], Accumulator[int]]:
        context = self.spark.sparkContext
        count, size_bytes = context.accumulator(0), context.accumulator(0)
        self._reporter.count(count, size_bytes, done)
        return count, size_bytes

    def run_tasks(self, call: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """A task for each, in no order; results are in the order of items."""
        if not items:
            return []
        return self.spark.sparkContext.parallelize(list(items), len(items)).map(call).collect()


def _add(
    messages: Accumulator[int], size_bytes: Accumulator[int], count: int, count_bytes: int
) -> None:
    messages.add(count)
    size_bytes.add(count_bytes)
