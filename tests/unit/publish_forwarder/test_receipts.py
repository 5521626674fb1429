from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from edge import message_id
from edge.times import rfc3339
from publish_forwarder.receipts import ReceiptWriter

UID = bytes(range(16))


@given(st.integers(0, 2**63), st.integers(1, 40), st.integers(0, 2**31), st.integers(0, 255))
@example(2**24 - 3, 7, 0, 0)
@example(2**48 - 1, 2, 5, 1)
def test_receipts_hold_what_the_plain_way_makes(
    base: int, count: int, partition: int, lane: int
) -> None:
    writer = ReceiptWriter(UID, 'a"b', partition, lane)
    texts = writer.write(base, count, 1, False)
    for text, offset in zip(texts, range(base, base + count), strict=True):
        assert msgspec.json.decode(text) == {
            "message_id": str(message_id.MessageId(1, UID, partition, lane, offset)),
            "topic": 'a"b',
            "partition": partition,
            "offset": offset,
            "publish_time": "1970-01-01T00:00:00.000001Z",
            "duplicate": False,
        }


def test_a_writer_crosses_back_and_forth_over_the_cached_part() -> None:
    writer = ReceiptWriter(UID, "t", 0)
    for base in (0, 2**24, 5, 2**25, 2**24 + 1):
        (text,) = writer.write(base, 1, 0, True)
        receipt = msgspec.json.decode(text)
        assert message_id.parse(receipt["message_id"]).number == base
        assert receipt["duplicate"] is True


@given(st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1)))
def test_times_are_rfc3339_in_utc(moment: datetime) -> None:
    moment = moment.replace(tzinfo=UTC)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    time_us = (moment - epoch) // (datetime.resolution)
    assert datetime.fromisoformat(rfc3339(time_us)) == moment
    assert rfc3339(time_us).endswith("Z")


def test_a_staged_message_has_an_id_and_no_offset() -> None:
    text = ReceiptWriter(UID, "t", 3).write_staged(2, 7, 1_000_000, 5, duplicate=False)
    assert msgspec.json.decode(text) == {
        "message_id": str(message_id.staged(UID, 3, 2, 7)),
        "topic": "t",
        "partition": 3,
        "offset": None,
        "publish_time": None,
        "duplicate": False,
        "scheduled_for": "1970-01-01T00:00:01.000000Z",
        "accepted_time": "1970-01-01T00:00:00.000005Z",
    }


def test_a_time_that_is_no_longer_known_is_null() -> None:
    writer = ReceiptWriter(UID, "t", 3)
    (text,) = writer.write(9, 1, 0, True)
    assert msgspec.json.decode(text)["publish_time"] is None
    staged = msgspec.json.decode(writer.write_staged(0, 9, None, 0, duplicate=True))
    assert (staged["scheduled_for"], staged["accepted_time"]) == (None, None)
