"""The messages of an ack: refusals of the array, and of its items."""

from __future__ import annotations

import json
from typing import Any

import pytest

from edge.problem import Problem
from openapi.consume import MAX_OUTPUTS
from publish_forwarder.outputs import outputs_of
from store_nodes.record_batch import Message

ITEM = {"topic": "t", "data": 1}


def refused(outputs: Any) -> list[tuple[str, str]]:
    with pytest.raises(Problem) as error:
        outputs_of(json.dumps(outputs).encode())
    assert error.value.status == 422
    return [tuple(each) for each in error.value.errors]


def test_an_output_is_read_like_a_published_message() -> None:
    item = ITEM | {"key": "k", "attributes": {"a": "b"}, "priority": 3, "ttl_seconds": 0.5}
    (given,) = outputs_of(json.dumps([item]).encode())
    assert given.topic == "t"
    assert given.message() == Message(
        b"1", "application/json", "k", {"a": "b"}, priority=3, ttl_ms=500
    )


@pytest.mark.parametrize(
    ("outputs", "field", "rule"),
    [
        ([], "publish", "must have at least 1 items"),
        ([ITEM] * (MAX_OUTPUTS + 1), "publish", "must have at most 100 items"),
        ({}, "publish", "must be an array, not an object"),
        ([ITEM, {"data": 1}], "publish[1].topic", "required"),
        ([ITEM, ITEM | {"delay_seconds": 1}], "publish[1].delay_seconds", "unknown field"),
        ([ITEM | {"idempotency_key": "a"}], "publish[0].idempotency_key", "unknown field"),
        ([ITEM | {"priority": 10}], "publish[0].priority", "must be a whole number, at most 9"),
    ],
)
def test_a_refusal_names_the_field_from_the_whole_body(outputs: Any, field: str, rule: str) -> None:
    assert refused(outputs) == [(field, rule)]


def test_the_longest_array_fits() -> None:
    assert len(outputs_of(json.dumps([ITEM] * MAX_OUTPUTS).encode())) == MAX_OUTPUTS
