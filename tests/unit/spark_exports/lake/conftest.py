"""A lake of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_exports.lake.lake import Lake
from tests.unit.spark_exports.lake.lake_support import local_lake, without_fsync


@pytest.fixture(autouse=True, scope="module")
def _quick() -> Iterator[None]:
    with without_fsync():
        yield


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with local_lake(tmp_path) as lake:
        yield lake
