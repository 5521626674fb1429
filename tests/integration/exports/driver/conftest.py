"""One small Spark, or one platform with a log, for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from packetboat.models.export_runs import LaneKey
from pyspark.sql import SparkSession

from tests.e2e.installation import Installation
from tests.integration.exports.driver.driver_process import published
from tests.spark_session import spark_session


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with Installation(tmp_path_factory.mktemp("driver") / "data").started() as installation:
        yield installation


@pytest.fixture(scope="module")
def ends(installation: Installation) -> dict[LaneKey, int]:
    """Publish to the installation and return the ends of its log."""
    return published(installation)
