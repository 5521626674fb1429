"""Equal rows have equal digests, in any order and any parts; nothing else has."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from spark_exports.lake.digest import COLUMNS, Hour, Tally
from spark_exports.lake.envelope import ENVELOPE
from tests.unit.spark_exports.lake.lake_support import START, batch, lane, message


def tally(*messages: dict[str, Any]) -> Tally:
    found = Tally()
    found.add(batch(messages, ENVELOPE))
    return found


def test_order_and_parts_do_not_matter() -> None:
    messages = [message(offset, publish_time=START) for offset in range(50)]
    whole = tally(*messages)
    random.Random(7).shuffle(messages)
    parts = tally(*messages[:20])
    parts.merge(tally(*messages[20:]))
    assert parts == whole
    assert Tally.of_batches(
        [tally(*messages[30:]).to_batch(), tally(*messages[:30]).to_batch()]
    ) == (whole)


def test_hours_and_topics_are_apart() -> None:
    before = datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    found = tally(
        message(0, publish_time=before),
        message(1, publish_time=before + timedelta(microseconds=1)),
        message(2, publish_time=START, topic="other"),
    )
    assert {hour: each.rows for hour, each in found.hours.items()} == {
        Hour("orders", -3600): 1,
        Hour("orders", 0): 1,
        Hour("other", int(START.timestamp())): 1,
    }


@pytest.mark.parametrize(
    "change",
    [
        {"message_id": "x"},
        {"partition": 1},
        {"lane": 1},
        {"offset": 2},
        {"publish_time": START + timedelta(microseconds=1)},
        {"key": "other"},
        {"key": None},
        {"attributes": [("n", "2")]},
        {"attributes": []},
        {"content_type": None},
    ],
    ids=str,
)
def test_every_column_counts(change: dict[str, Any]) -> None:
    same = message(1, publish_time=START, key="")
    assert tally(same) != tally(same | change)
    assert tally(same) == tally(same | {"data": b"other", "priority": 3})


def test_what_moves_from_one_column_to_the_next_shows() -> None:
    one = message(1, topic="t", key="a|1:b", content_type="c")
    other = message(1, topic="t", key="a", content_type="b|1:c")
    assert tally(one) != tally(other)


def test_a_row_that_is_there_twice_shows() -> None:
    one = message(1)
    assert tally(one, one) != tally(one)
    assert tally(one, one, one) != tally(one)
    (hour,) = tally(one, one).hours.values()
    assert hour.rows == 2


def test_the_order_of_attributes_does_not_matter_and_none_is_none() -> None:
    one = message(1, attributes=[("a", "1"), ("b", "2")])
    assert tally(one) == tally(one | {"attributes": [("b", "2"), ("a", "1")]})
    assert tally(one | {"attributes": None}, message(2)) == (
        tally(one | {"attributes": []}, message(2))
    )
    assert tally(one | {"attributes": None}) == tally(one | {"attributes": []})


def test_large_types_and_other_zones_are_the_same() -> None:
    rows = lane(0, 5).select(list(COLUMNS))
    other = rows.cast(
        pa.schema(
            [
                field.with_type(pa.large_string())
                if field.type == pa.string()
                else field.with_type(pa.timestamp("us", tz="Europe/Berlin"))
                if pa.types.is_timestamp(field.type)
                else field
                for field in rows.schema
            ]
        )
    )
    found = Tally()
    found.add(other)
    expected = Tally()
    expected.add(rows)
    assert found == expected


def test_the_digest_is_frozen() -> None:
    """Logs and tables are compared by programs of different versions."""
    (hour,) = tally(message(1, attributes=[("é", '"')], key=None)).hours.values()
    assert hour.text == "a6e76120f670b6781d246a2c0c93257a"
