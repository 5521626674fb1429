"""Test what Spark gets by its version, by the settings of its session, and by the source itself."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import pytest
from packetboat.credentials import StaticToken
from packetboat.spark import register
from packetboat.spark.batch import BatchReader
from packetboat.spark.columns import TYPES
from packetboat.spark.errors import InvalidOption
from packetboat.spark.ranges import Lane, Split
from packetboat.spark.source import PacketboatDataSource
from packetboat.spark.stream import UnlimitedStreamReader
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructField, StructType

SCHEMA = StructType([StructField(name, kind) for name, kind in TYPES.items()])
HERE = {"url": "http://here", "topic": "a"}


class Session:
    """The part of a SparkSession that `register` uses."""

    def __init__(self, parallelism: int | None, **conf: str) -> None:
        self._parallelism = parallelism
        self.conf = {name.replace("_", "."): value for name, value in conf.items()}
        self.dataSource = self
        self.registered: Any = None

    @property
    def sparkContext(self) -> Session:  # noqa: N802
        if self._parallelism is None:
            raise RuntimeError("not with Spark Connect")
        return self

    @property
    def defaultParallelism(self) -> int:  # noqa: N802
        return self._parallelism or 0

    def register(self, source: Any) -> None:
        self.registered = source


def registered(session: Session) -> type[PacketboatDataSource]:
    register(session)  # type: ignore[arg-type]
    # As it comes to the process that plans, which has nothing of ours but the package.
    source: type[PacketboatDataSource] = cloudpickle.loads(cloudpickle.dumps(session.registered))
    return source


def allowing() -> Session:
    session = Session(4)
    session.conf["spark.sql.python.filterPushdown.enabled"] = "true"
    return session


@pytest.fixture
def _before_4_2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "packetboat.spark.limited_stream", None)


@pytest.fixture
def _before_4_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "packetboat.spark.pushdown", None)


def test_a_reader_pushes_down_only_where_spark_allows_it() -> None:
    """Spark refuses to read with one that does where it is not allowed."""
    pushdown = pytest.importorskip(
        "packetboat.spark.pushdown", reason="since Spark 4.1", exc_type=ImportError
    )
    without = registered(Session(4))(HERE).reader(SCHEMA)
    assert type(without) is BatchReader
    assert type(without).pushFilters is DataSourceReader.pushFilters
    assert type(registered(allowing())(HERE).reader(SCHEMA)) is pushdown.PushdownReader


@pytest.mark.usefixtures("_before_4_1")
def test_before_4_1_a_session_that_allows_it_reads_all() -> None:
    """Spark has no such setting then, and looks at each row itself."""
    assert type(registered(allowing())(HERE).reader(SCHEMA)) is BatchReader


def test_what_is_known_here_goes_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACKETBOAT_URL", "http://of-the-program")
    monkeypatch.setenv("PACKETBOAT_TOKEN", "t")
    source = registered(Session(3))
    monkeypatch.delenv("PACKETBOAT_URL")
    options = source({"topic": "a"}).reader(SCHEMA)._task.options
    assert options.connection.urls == ("http://of-the-program",)
    assert options.connection.credentials == StaticToken("t")
    assert (source.name(), source.parallelism) == ("packetboat", 3)
    assert registered(Session(None)).parallelism is None


def test_readers_and_splits_come_to_workers_as_they_are() -> None:
    source = PacketboatDataSource(HERE | {"token": "t", "filter": "true"})
    for reader in (source.reader(SCHEMA), source.streamReader(SCHEMA)):
        again = cloudpickle.loads(cloudpickle.dumps(reader))
        assert again._task == reader._task
    split = Split(Lane("a", 1, 2), 3, 4, "u", True, 5)
    assert cloudpickle.loads(cloudpickle.dumps(split)) == split
    assert isinstance(split, InputPartition)


def test_where_there_is_nothing_to_read_nothing_is_read() -> None:
    """Spark makes a partition of its own then."""
    source = PacketboatDataSource(HERE)
    assert list(source.reader(SCHEMA).read(InputPartition(None))) == []


def test_the_schema_has_a_body_where_one_is_wanted() -> None:
    assert PacketboatDataSource(HERE).schema().startswith("topic string, message_id string,")
    wanted = PacketboatDataSource(HERE | {"body_schema": "a INT, b STRING"}).schema()
    assert wanted.endswith(", body struct<a INT, b STRING>")


@pytest.mark.usefixtures("_before_4_2")
def test_a_stream_before_4_2_is_asked_without_limits() -> None:
    """Spark looks at how many parameters `latestOffset` has."""
    reader = PacketboatDataSource(HERE).streamReader(SCHEMA)
    assert type(reader) is UnlimitedStreamReader
    assert not inspect.signature(reader.latestOffset).parameters
    with pytest.raises(InvalidOption, match=r"needs Spark 4\.2 or later"):
        PacketboatDataSource(HERE | {"max_rows_per_batch": "7"}).streamReader(SCHEMA)


def test_a_batch_is_planned_by_its_offsets_alone() -> None:
    task = PacketboatDataSource(HERE | {"rows_per_split": "5"}).reader(SCHEMA)._task
    reader = UnlimitedStreamReader(task, 2)
    start, end = {"a": {"0": 3}}, {"a": {"0": 10, "1/1": 4}}
    assert reader.partitions(start, end) == [
        Split(Lane("a", 0), 3, 8, concurrent=2),
        Split(Lane("a", 0), 8, 10, concurrent=2),
        Split(Lane("a", 1, 1), 0, 4, from_first=True, concurrent=2),
    ]
    assert reader.partitions(end, end) == []
