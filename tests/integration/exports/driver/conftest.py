"""One small Spark for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_exports.order import LakeSettings
from spark_exports.session import session_of


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    directory: Path = tmp_path_factory.mktemp("spark")
    lake = LakeSettings(
        name="default",
        warehouse="",
        catalog={},
        spark_master="local[2]",
        spark_conf={"spark.driver.memory": "1g"},
    )
    session = session_of(lake, "driver tests", directory)
    yield session
    session.stop()
