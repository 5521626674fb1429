"""Streaming queries over a real Packetboat: every message is in one batch, over restarts too."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from packetboat import Client
from packetboat.spark import register
from packetboat.testing.packetboat import Packetboat
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.integration.spark.logs import log_of, publish, rows_of
from tests.spark_version import HAS_LIMITS

PATIENCE_S = 240.0
LIMITED = pytest.mark.skipif(
    not HAS_LIMITS, reason="limits of batches need Spark 4.2 or later (make test-spark SPARK=4.2.1)"
)
GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "spark.md"


@pytest.fixture
def client(packetboat: Packetboat) -> Client:
    return packetboat.client()


def started(run: Callable[[], None]) -> None:
    """Spark gives the process that plans a stream 10 s to start, which may be too few where much
    else runs: then it has done nothing."""
    while True:
        try:
            return run()
        except PySparkException as error:
            if "failed to connect back" not in str(error):
                raise


class Query:
    """A query that gathers its batches, run again and again on one checkpoint."""

    def __init__(self, spark: SparkSession, packetboat: Packetboat, directory: Path) -> None:
        self._spark = spark
        self._given = {"url": packetboat.url, "token": packetboat.token, "topic": "orders"}
        self._directory = directory
        self.batches: dict[int, list[Any]] = {}
        self.fails_at: int | None = None

    def run(self, **options: object) -> None:
        """All there is, and no more."""

        def run() -> None:
            query = self.begin({"availableNow": True}, **options)
            assert query.awaitTermination(int(PATIENCE_S))

        started(run)

    def begin(self, trigger: dict[str, Any], **options: object) -> Any:
        reader = self._spark.readStream.format("packetboat")
        for name, value in (self._given | options).items():
            reader = reader.option(name, str(value))
        writer = reader.load().writeStream.foreachBatch(self._take)
        return writer.option("checkpointLocation", str(self._directory)).trigger(**trigger).start()

    def _take(self, frame: DataFrame, number: int) -> None:
        rows = frame.collect()
        if number == self.fails_at:
            self.fails_at = None
            raise RuntimeError("the sink fails")
        self.batches[number] = rows

    @property
    def rows(self) -> list[Any]:
        return [row for number in sorted(self.batches) for row in self.batches[number]]

    def offsets(self) -> dict[str, dict[str, int]]:
        """Return the last offsets of the checkpoint."""
        kept = sorted((self._directory / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
        found: dict[str, dict[str, int]] = json.loads(kept[-1].read_text().splitlines()[-1])
        return found


@pytest.fixture
def query(spark: SparkSession, packetboat: Packetboat, tmp_path: Path) -> Iterator[Query]:
    yield Query(spark, packetboat, tmp_path / "checkpoint")
    for active in spark.streams.active:
        active.stop()


def test_runs_go_on_where_the_last_one_ended(client: Client, query: Query) -> None:
    client.topics.create("orders", partitions=2)
    publish(client, "orders", 300)
    query.run()
    assert len(query.rows) == 300
    query.run()
    assert len(query.rows) == 300
    publish(client, "orders", 50)
    query.run()
    assert rows_of(query.rows) == log_of(client, "orders", 2)
    assert sum(query.offsets()["orders"].values()) == 350


@LIMITED
def test_a_batch_has_no_more_than_it_may(client: Client, query: Query) -> None:
    client.topics.create("orders", partitions=3)
    publish(client, "orders", 500)
    query.run(max_rows_per_batch=200)
    assert [len(rows) for rows in query.batches.values()] == [200, 200, 100]
    assert rows_of(query.rows) == log_of(client, "orders", 3)


def test_a_batch_that_failed_is_the_same_again(client: Client, query: Query) -> None:
    """Though more has come meanwhile. Without limits a run is one batch: the one that failed."""
    client.topics.create("orders", partitions=2)
    publish(client, "orders", 100)
    limit, second = ({"max_rows_per_batch": 40}, 1) if HAS_LIMITS else ({}, 0)
    query.fails_at = second
    with pytest.raises(PySparkException, match="the sink fails"):
        query.run(**limit)
    planned = query.offsets()
    publish(client, "orders", 100)
    query.run(**limit)
    taken = rows_of(row for number in range(second + 1) for row in query.batches[number])
    lanes = [at[1] for at in taken]
    assert {str(lane): lanes.count(lane) for lane in lanes} == planned["orders"]
    if not HAS_LIMITS:
        query.run()
    assert rows_of(query.rows) == log_of(client, "orders", 2)


def test_available_now_has_the_end_that_there_was(
    client: Client, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.topics.create("orders", partitions=1)
    publish(client, "orders", 100)
    take = query._take

    def publishing(frame: DataFrame, number: int) -> None:
        publish(client, "orders", 10)
        take(frame, number)

    monkeypatch.setattr(query, "_take", publishing)
    limit, batches = ({"max_rows_per_batch": 50}, [50, 50]) if HAS_LIMITS else ({}, [100])
    query.run(**limit)
    assert [len(rows) for rows in query.batches.values()] == batches


def test_partitions_that_come_later_are_read_from_their_first_message(
    client: Client, query: Query
) -> None:
    client.topics.create("orders", partitions=1)
    publish(client, "orders", 30)
    query.run(from_offset="latest")
    assert query.rows == []
    client.topics.grow("orders", 3)
    publish(client, "orders", 90)
    query.run(from_offset="latest")
    log = log_of(client, "orders", 3)
    assert rows_of(query.rows) == {at: row for at, row in log.items() if at[1] or at[3] >= 30}


def test_a_query_that_goes_on_sees_what_comes(client: Client, query: Query) -> None:
    client.topics.create("orders", partitions=2)
    running = query.begin({"processingTime": "200 milliseconds"})
    deadline_s = time.monotonic() + PATIENCE_S
    for count in (40, 90):
        publish(client, "orders", count)
    while len(query.rows) < 130:
        assert running.isActive, running.exception()
        assert time.monotonic() < deadline_s
        running.awaitTermination(1)
    running.stop()
    assert rows_of(query.rows) == log_of(client, "orders", 2)


def test_cut_connections_lose_nothing_of_a_stream(
    packetboat: Packetboat, client: Client, query: Query
) -> None:
    client.topics.create("orders", partitions=2)
    publish(client, "orders", 200)
    log = log_of(client, "orders", 2)
    packetboat.faults.cut_replies(0.4, on="GET /topics/orders/partitions")
    limit = {"max_rows_per_batch": 70} if HAS_LIMITS else {}
    query.run(**limit)
    assert rows_of(query.rows) == log


def test_a_topic_that_was_made_again_ends_the_query(client: Client, query: Query) -> None:
    client.topics.create("orders", partitions=1)
    publish(client, "orders", 30)
    query.run()
    client.topics.delete("orders", force=True)
    client.topics.create("orders", partitions=1)
    publish(client, "orders", 5)
    with pytest.raises(PySparkException, match="the topic was made again"):
        query.run()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"to_offset": "5"}, "a stream has no end"),
        ({"max_rows_per_batch": "0"}, "max_rows_per_batch: a number from 1 on"),
        *([] if HAS_LIMITS else [({"max_rows_per_batch": "5"}, "needs Spark 4.2 or later")]),
    ],
)
def test_what_a_stream_cannot_do(
    client: Client, query: Query, options: dict[str, str], said: str
) -> None:
    client.topics.create("orders", partitions=1)
    with pytest.raises(PySparkException, match=said):
        query.run(**options)


def test_the_stream_of_the_guide_runs(
    packetboat: Packetboat,
    client: Client,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The program takes the server from the environment, as the page does.

    Its limit of a batch is left out where Spark has none.
    """
    client.topics.create("guide-spark", partitions=2)
    publish(client, "guide-spark", 4)
    monkeypatch.setenv("PACKETBOAT_URL", packetboat.url)
    monkeypatch.setenv("PACKETBOAT_TOKEN", packetboat.token)
    register(spark)
    (program,) = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    program = program.replace("/lake/", f"{tmp_path}/")
    if not HAS_LIMITS:
        program = program.replace('    .option("max_rows_per_batch", 3)\n', "")
    started(lambda: exec(program, {"spark": spark}))  # noqa: S102  # our own page
    rows = spark.read.parquet(str(tmp_path / "orders")).collect()
    assert {row.offset for row in rows} <= set(range(4))
    assert len(rows) == 4
