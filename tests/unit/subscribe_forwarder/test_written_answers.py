"""Answers that are written as text, because they are many, have the fields of the contract."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from openapi.consume import Delivery, Pulled
from openapi.publish import Receipt
from openapi.topics import Rescheduled
from publish_forwarder.receipts import ReceiptWriter
from store_nodes.record_batch import Message
from subscribe_forwarder.delivery.reading.render import (
    PartitionRenderer,
    deliveries,
    deliveries_without_ack_ids,
    pull_body,
    time_json,
)

UID = b"u" * 16
NOW = time_json(1_700_000_000_123_456)
FURTHER = {"scheduled_for"}
"""Members of a delivered message that the contract does not name."""
MESSAGES = [
    Message(b'{"n": 1}', "application/json", "k", {"a": "b"}, "me", 4, 1_700_000_001_000_000),
    Message(b"x", traceparent="00-a", tracestate='b="1"'),
    Message(b"\xff", "image/png"),
]


def misfits(members: Mapping[str, object], kind: type[msgspec.Struct]) -> set[str]:
    """Return the names that a class does not have, and those that it requires and are missing."""
    fields = msgspec.structs.fields(kind)
    names = set(members)
    missing = {field.encode_name for field in fields if field.required} - names
    return (names - {field.encode_name for field in fields}) | missing


@pytest.mark.parametrize("message", MESSAGES)
def test_a_pull_has_the_fields_of_the_contract(message: Message) -> None:
    fragment = PartitionRenderer(UID, 3).fragment(message, 9, NOW)
    leased, acked = (
        deliveries([fragment], [b"ack"], [2]),
        deliveries_without_ack_ids([fragment], [1]),
    )
    body = pull_body([leased, acked])
    answer = msgspec.json.decode(body)
    assert misfits(answer, Pulled) == set()
    for shown in answer["messages"]:
        assert misfits(shown, Delivery) == FURTHER
    assert msgspec.json.decode(body, type=Pulled).messages[1].ack_id is None


def test_a_receipt_has_the_fields_of_the_contract() -> None:
    writer = ReceiptWriter(UID, "t", 3)
    for text in writer.write(9, 2, 1_700_000_000_123_456, False):
        assert misfits(msgspec.json.decode(text), Receipt) == set()
        receipt = msgspec.json.decode(text, type=Receipt)
        assert msgspec.json.encode(receipt).decode() == text, "in the order of the contract"


def test_a_name_that_the_contract_does_not_have_is_seen() -> None:
    assert misfits({"message_id": "m", "colour": 1}, Rescheduled) == {
        "colour",
        "partition",
        "scheduled_for",
        "topic",
    }
