"""Readings of a real Packetboat by Spark equal its log."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import fastavro
import msgspec
import pytest
from packetboat import Client, Outgoing
from packetboat.models.export_runs import LaneKey, LaneRange
from packetboat.testing.packetboat import Packetboat
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from tests.integration.spark.logs import in_order, log_of, publish, reading, rows_of
from tests.spark_version import HAS_PUSH_DOWN

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
}


@pytest.fixture
def client(packetboat: Packetboat) -> Client:
    return packetboat.client()


def tasks_of(frame: DataFrame) -> int:
    return frame.rdd.getNumPartitions()


def test_a_topic_is_read_as_it_is(
    packetboat: Packetboat, client: Client, spark: SparkSession
) -> None:
    """Count, order and digests, over several splits of each partition."""
    client.topics.create("orders", partitions=3)
    publish(client, "orders", 1500)
    frame = reading(spark, packetboat, topic="orders", rows_per_split=200)
    rows = frame.collect()
    assert rows_of(rows) == log_of(client, "orders", 3)
    assert len(rows) == 1500
    assert in_order([(row.topic, row.partition, row.lane, row.offset) for row in rows])
    assert tasks_of(frame) > 6
    (first,) = frame.where("partition = 0 AND offset = 0").collect()
    stored = next(client.messages.replay("orders", 0))
    assert first.publish_time.replace(tzinfo=UTC) == stored.publish_time
    assert (first.content_type, first.priority) == ("application/json", 0)


def test_several_topics_and_lanes(
    packetboat: Packetboat, client: Client, spark: SparkSession
) -> None:
    client.topics.create("plain", partitions=1)
    client.topics.create("lanes", partitions=2, priorities=3)
    publish(client, "plain", 20)
    for priority in range(3):
        publish(client, "lanes", 30, priority=priority)
    log = log_of(client, "plain", 1) | log_of(client, "lanes", 2, 3)
    rows = reading(spark, packetboat, topic="plain, lanes").collect()
    assert rows_of(rows) == log
    assert {row.lane for row in rows} == {0, 1, 2}
    only = reading(spark, packetboat, topic="lanes", partitions="1").collect()
    assert rows_of(only) == {at: row for at, row in log.items() if at[:2] == ("lanes", 1)}


def test_places(packetboat: Packetboat, client: Client, spark: SparkSession) -> None:
    client.topics.create("orders", partitions=2)
    publish(client, "orders", 400)
    middle = datetime.now(UTC)
    publish(client, "orders", 100)
    offsets = [client.messages.offsets("orders", n, middle) for n in range(2)]
    log = list(log_of(client, "orders", 2))

    def read(**options: object) -> list[tuple[str, int, int, int]]:
        frame = reading(spark, packetboat, topic="orders", **options)
        return sorted(rows_of(frame.select("*").collect()))

    assert read(from_offset=5, to_offset=9) == [at for at in log if 5 <= at[3] < 9]
    by_lane = read(from_offset='{"1": 7}', to_offset='{"0": 3, "1/0": 11}')
    assert by_lane == [at for at in log if (at[3] < 3 if at[1] == 0 else 7 <= at[3] < 11)]
    later = read(from_time=middle.isoformat())
    assert later == [at for at in log if at[3] >= offsets[at[1]].at]
    assert len(later) == 100
    assert read(to_time=middle.isoformat()) == [at for at in log if at not in set(later)]
    assert read(from_offset="latest") == []
    assert read(from_offset=10**6) == []


def test_ranges_are_read_to_the_row(
    packetboat: Packetboat, client: Client, spark: SparkSession
) -> None:
    client.topics.create("orders", partitions=2)
    publish(client, "orders", 300)
    ranges = [
        LaneRange(LaneKey("orders", "", partition, 0), start, end)
        for partition, start, end in [(0, 3, 70), (1, 50, 51), (1, 60, 60)]
    ]
    text = msgspec.json.encode(ranges).decode()
    rows = reading(spark, packetboat, ranges=text, rows_per_split=25).collect()
    assert sorted(rows_of(rows)) == [
        *(("orders", 0, 0, offset) for offset in range(3, 70)),
        ("orders", 1, 0, 50),
    ]
    assert reading(spark, packetboat, ranges="[]").count() == 0


def test_a_range_of_a_topic_that_was_made_again_is_refused(
    packetboat: Packetboat, client: Client, spark: SparkSession
) -> None:
    client.topics.create("orders", partitions=1)
    publish(client, "orders", 10)
    key = LaneKey("orders", "00" * 16, 0, 0)
    text = msgspec.json.encode([LaneRange(key, 0, 10)]).decode()
    with pytest.raises(PySparkException, match="another one made in its name"):
        reading(spark, packetboat, ranges=text).collect()


def test_a_filter_is_the_servers(
    packetboat: Packetboat, client: Client, spark: SparkSession
) -> None:
    client.topics.create("orders", partitions=2)
    publish(client, "orders", 300)
    frame = reading(spark, packetboat, topic="orders", filter="data.n % 10 == 3", rows_per_split=40)
    numbers = {int(row.attributes["n"]) for row in frame.collect()}
    assert numbers == set(range(3, 300, 10))


def test_connections_that_are_cut_lose_and_repeat_nothing(
    packetboat: Packetboat, client: Client, spark: SparkSession
) -> None:
    client.topics.create("orders", partitions=2)
    publish(client, "orders", 600)
    log = log_of(client, "orders", 2)
    packetboat.faults.cut_replies(0.5, on="GET /topics/orders/partitions/")
    packetboat.faults.drop_replies(0.2, on="GET /topics/orders/partitions/")
    rows = reading(spark, packetboat, topic="orders", rows_per_split=40).collect()
    assert rows_of(rows) == log
    some = reading(spark, packetboat, topic="orders", filter="data.n % 2 == 0", rows_per_split=40)
    assert some.count() == 300
    assert sum(packetboat.faults.counts.values()) > 3


def test_conditions_decide_what_is_read(
    packetboat: Packetboat, client: Client, spark: SparkSession
) -> None:
    """Before Spark 4.1, which rows are given, and all are read."""
    client.topics.create("orders", partitions=2)
    publish(client, "orders", 400)
    frame = reading(spark, packetboat, topic="orders", rows_per_split=10)
    whole = frame.collect()
    some = frame.where((col("partition") == 1) & (col("offset") >= 20) & (col("offset") < 35))
    assert [row.offset for row in some.collect()] == list(range(20, 35))
    assert tasks_of(frame) > 30
    if not HAS_PUSH_DOWN:
        assert tasks_of(some) == tasks_of(frame)
        return
    assert tasks_of(some) == 2
    moment = max(row.publish_time for row in whole)
    last = [row.offset for row in whole if row.publish_time == moment]
    later = frame.where(col("publish_time") >= moment)
    assert [row.offset for row in later.collect()] == last
    assert tasks_of(later) == -(-len(last) // 10) < tasks_of(frame)
    none = frame.where("topic = 'another'")
    assert (none.count(), tasks_of(none)) == (0, 1)


def test_only_columns_that_are_wanted_are_made(
    packetboat: Packetboat, client: Client, spark: SparkSession
) -> None:
    client.topics.create("orders", partitions=1)
    publish(client, "orders", 5)
    reader = spark.read.format("packetboat").options(url=packetboat.url, token=packetboat.token)
    frame = reader.option("topic", "orders").schema("offset BIGINT, body STRUCT<n: INT>").load()
    assert [(row.offset, row.body.n) for row in frame.collect()] == [(n, n) for n in range(5)]


def test_bodies_by_their_avro_schema(
    packetboat: Packetboat, client: Client, spark: SparkSession
) -> None:
    client.schemas.create("order", "avro", ORDER)
    client.topics.create("orders", partitions=1, schema="order")
    for value in ({"id": 1, "note": None}, {"id": 2, "note": "n"}):
        body = io.BytesIO()
        fastavro.schemaless_writer(body, ORDER, value)
        client.publish("orders", body.getvalue(), content_type="avro/binary")
    frame = reading(spark, packetboat, topic="orders", body_schema="id BIGINT, note STRING")
    found = [row.body.asDict() for row in frame.orderBy("offset").collect()]
    assert found == [{"id": 1, "note": None}, {"id": 2, "note": "n"}]


def test_a_rate_is_kept_to(packetboat: Packetboat, client: Client, spark: SparkSession) -> None:
    """The rate is low enough that the read cannot be done sooner, whatever the machine does."""
    client.topics.create("orders", partitions=2)
    for _ in range(8):
        client.publish_batch("orders", [Outgoing(data=bytes(5000))] * 20)
    begun = datetime.now(UTC)
    assert reading(spark, packetboat, topic="orders", max_bytes_per_second=200_000).count() == 160
    took_s = (datetime.now(UTC) - begun).total_seconds()
    assert took_s >= 160 * 5000 / 200_000 * 0.9


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topic": "none-such"}, "404 topic-not-found"),
        ({"topic": "t", "limit": "5"}, "no option of packetboat: limit"),
        ({"topic": "t", "token": "wrong"}, "The token is not valid, or not any more"),
        ({"topic": "t", "partitions": "7"}, r"topic t has no \[7\]"),
        ({"topic": "t", "filter": "data."}, "400"),
        ({"topic": "t", "body_schema": "v INTERVAL DAY"}, "body_schema: bodies have no"),
    ],
)
def test_what_cannot_be_read_is_said_why(
    packetboat: Packetboat,
    client: Client,
    spark: SparkSession,
    options: dict[str, str],
    said: str,
) -> None:
    client.topics.create("t", partitions=1)
    publish(client, "t", 1)
    with pytest.raises(PySparkException, match=said):
        reading(spark, packetboat, **options).collect()
