"""A session of Spark for tests: what it changes of the environment ends with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from spark_exports.order import LakeSettings
from spark_exports.session import session_of

SMALL = LakeSettings(
    name="default",
    warehouse="",
    catalog={},
    spark_master="local[2]",
    spark_conf={"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"},
)
"""One that needs no lake."""


@contextmanager
def spark_session(directory: Path, lake: LakeSettings = SMALL) -> Iterator[SparkSession]:
    """A process has one at a time, and a JVM takes seconds to start."""
    before = dict(os.environ)
    session = session_of(lake, "tests", directory)
    try:
        yield session
    finally:
        session.stop()
        os.environ.clear()
        os.environ.update(before)
