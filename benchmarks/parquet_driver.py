"""The driver of exports over messages in local Parquet files: what a run costs beside reading them
from the platform. `python -m benchmarks.parquet_driver DIRECTORY`, else like the real one.

All is the same job: the same tasks over the same slices, decoding, writing and committing the same
rows. Spark reads a file for each slice by its own reader of Parquet.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from packetboat.models.export_runs import LaneKey, LaneRange
from pyspark.sql import DataFrame, SparkSession

from spark_exports.driver.bodies.avro_bodies import AvroVersion
from spark_exports.driver.drive import drive
from spark_exports.driver.lines import of_process
from spark_exports.driver.progress import Reporter
from spark_exports.driver.spark import Jobs
from spark_exports.order import Done, Order
from spark_exports.session import session_of

MANY_BYTES = str(1 << 40)


def file_of(directory: Path, piece: LaneRange) -> Path:
    """Return the file of a slice's messages."""
    return directory / f"{piece.key.partition}-{piece.key.lane}-{piece.start}-{piece.end}.parquet"


class ParquetPlatform:
    """A source of messages in place of the platform."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def messages(self, spark: SparkSession, slices: Sequence[LaneRange]) -> DataFrame:
        # There is a task for each file, as there is one for each slice.
        spark.conf.set("spark.sql.files.maxPartitionBytes", MANY_BYTES)
        spark.conf.set("spark.sql.files.openCostInBytes", MANY_BYTES)
        return spark.read.parquet(*(str(file_of(self._directory, each)) for each in slices))

    def avro_versions(self, topics: Iterable[str]) -> dict[str, list[AvroVersion]]:
        return {}

    def first_offsets(self, keys: Iterable[LaneKey]) -> dict[LaneKey, int]:
        return dict.fromkeys(keys, 0)


def main() -> None:
    directory = Path(sys.argv[1])

    def start(order: Order, reporter: Reporter) -> Jobs:
        spark = session_of(order.lake, "benchmark", Path(order.state_dir))
        return Jobs(spark, ParquetPlatform(directory), reporter)

    answer = drive(of_process(), start)
    sys.stderr.flush()
    os._exit(0 if isinstance(answer, Done) else 1)


if __name__ == "__main__":
    main()
