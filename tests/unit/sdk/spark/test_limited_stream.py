"""Streams of Spark 4.2 and later: limits of a batch, and the end of AvailableNow."""

from __future__ import annotations

import pytest
from packetboat.spark.columns import TYPES
from packetboat.spark.ranges import Lane
from packetboat.spark.source import PacketboatDataSource
from pyspark.sql.types import StructField, StructType

pytest.importorskip(
    "pyspark.sql.streaming.datasource",
    reason="Spark tells streams of limits since 4.2 (make test-spark SPARK=…)",
)

from packetboat.spark.limited_stream import LimitedStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

SCHEMA = StructType([StructField(name, kind) for name, kind in TYPES.items()])
HERE = {"url": "http://here", "topic": "a"}


def test_a_stream_has_limits_since_4_2() -> None:
    given = PacketboatDataSource(HERE | {"max_rows_per_batch": "7"})
    reader = given.streamReader(SCHEMA)
    assert isinstance(reader, LimitedStreamReader)
    assert reader.getDefaultReadLimit() == ReadMaxRows(7)
    reader = PacketboatDataSource(HERE).streamReader(SCHEMA)
    assert isinstance(reader, LimitedStreamReader)
    assert reader.getDefaultReadLimit() == ReadAllAvailable()


class Ends(LimitedStreamReader):
    """One whose topic ends where a test says."""

    now: dict[Lane, int]

    def ends(self) -> dict[Lane, int]:
        return dict(self.now)


def test_a_batch_ends_within_its_limit_and_available_now_where_it_began() -> None:
    reader = Ends(PacketboatDataSource(HERE).reader(SCHEMA)._task, None)
    reader.now = {Lane("a", 0): 10, Lane("a", 1): 10}
    assert reader.reportLatestOffset() is None
    assert reader.latestOffset({}, ReadMaxRows(4)) == {"a": {"0": 2, "1": 2}}
    assert reader.reportLatestOffset() == {"a": {"0": 10, "1": 10}}
    reader.prepareForTriggerAvailableNow()
    reader.now = {Lane("a", 0): 99, Lane("a", 1): 99, Lane("a", 2): 99}
    at = reader.latestOffset({"a": {"0": 2, "1": 2}}, ReadAllAvailable())
    assert at == {"a": {"0": 10, "1": 10}}
    assert reader.latestOffset(at, ReadMaxRows(4)) == at
