"""A Spark session for each module: a JVM takes seconds to start, and a process has one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from packetboat.spark import register
from pyspark.sql import SparkSession

from tests.spark_session import spark_session


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Yield a session with the data source and push-down."""
    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        register(session)
        yield session
