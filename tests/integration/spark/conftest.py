"""A Spark session for each module: a JVM takes seconds to start, and a process has one."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from packetboat.spark import register
from pyspark.sql import SparkSession

from spark_exports.order import LakeSettings
from spark_exports.session import session_of

CONF = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """With the data source, and push-down."""
    before = dict(os.environ)
    lake = LakeSettings(
        name="default", warehouse="", catalog={}, spark_master="local[2]", spark_conf=CONF
    )
    session = session_of(lake, "tests", tmp_path_factory.mktemp("spark"))
    register(session)
    try:
        yield session
    finally:
        session.stop()
        os.environ.clear()
        os.environ.update(before)
