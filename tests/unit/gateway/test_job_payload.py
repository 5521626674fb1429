"""Bodies with JSON of callers: each refusal names its field, and inputs stay as they came."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edge.problem import Problem
from gateway.jobs.payload import completions_of, inputs_of
from openapi.jobs import MAX_JOB_TASKS, MAX_LEASES_AT_ONCE, MAX_OUTPUT_BYTES, MAX_TASKS_AT_ONCE


def fields_of(read: Any, body: Any) -> list[str]:
    with pytest.raises(Problem) as error:
        read(msgspec.json.encode(body))
    return [each.field for each in error.value.errors]


@pytest.mark.parametrize(
    ("tasks", "field"),
    [
        ([], "tasks"),
        ([{"lease_id": "a"}] * (MAX_LEASES_AT_ONCE + 1), "tasks"),
        ([{"lease_id": "a"}, {"output": 1}], "tasks[1].lease_id"),
        ([{"lease_id": "a"}, {"lease_id": "b", "colour": 1}], "tasks[1].colour"),
        ([{"lease_id": "a"}, {"lease_id": "b", "output": 1, "wait_for": "c"}], "tasks[1]"),
        ([{"lease_id": "a", "output": "x" * MAX_OUTPUT_BYTES}], "tasks[0].output"),
    ],
)
def test_a_refused_completion_is_named_by_its_place(tasks: list[Any], field: str) -> None:
    assert fields_of(completions_of, {"tasks": tasks}) == [field]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"inputs": [1]}, "first_index"),
        ({"first_index": 0}, "inputs"),
        ({"first_index": 0, "inputs": []}, "inputs"),
        ({"first_index": 0, "inputs": [1] * (MAX_TASKS_AT_ONCE + 1)}, "inputs"),
        ({"first_index": MAX_JOB_TASKS, "inputs": [1]}, "first_index"),
        ({"first_index": MAX_JOB_TASKS - 1, "inputs": [1, 2]}, "first_index"),
        ({"first_index": 0, "inputs": [1], "colour": 1}, "colour"),
    ],
)
def test_refused_inputs_are_named(body: dict[str, Any], field: str) -> None:
    assert fields_of(inputs_of, body) == [field]


def test_inputs_stay_as_they_came() -> None:
    given = inputs_of(b'{"first_index": 3, "inputs": [ {"a": 1.50}, null, "x"]}')
    assert (given.first_index, given.inputs) == (3, [b'{"a": 1.50}', b"null", b'"x"'])
