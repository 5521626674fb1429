"""Every operation and every problem has a recorded answer, or a reason why it has none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

import openapi
from tests.parts import ROOT
from tests.recorded.areas import SCENARIOS
from tests.recorded.records import LIMITS, RECORDS, WORDING, file_of, read

UNPROVOKED = ROOT / "tests/recorded/unprovoked.yaml"
MOST_UNPROVOKED = 44
"""The number of problems without a record when this was written. It gets smaller, never larger."""


@pytest.fixture(scope="module")
def recorded() -> dict[str, dict[str, Any]]:
    return {area: read(file_of(area)) for area in SCENARIOS}


def test_every_operation_has_a_recorded_answer(recorded: dict[str, dict[str, Any]]) -> None:
    operations = {
        operation["operationId"]
        for item in openapi.document()["paths"].values()
        for method, operation in item.items()
        if method != "parameters"
    }
    found = {
        record.get("operation") for records in recorded.values() for record in records.values()
    }
    assert operations - found == set()


def test_every_problem_has_a_recorded_answer_or_a_reason(
    recorded: dict[str, dict[str, Any]],
) -> None:
    documented = set(
        re.findall(r"^## (\S+)$", (ROOT / "docs/problems.md").read_text(encoding="utf-8"), re.M)
    )
    found = set(_problems(list(recorded.values())))
    unprovoked = read(UNPROVOKED)
    assert found - documented == set()
    assert documented - found == set(unprovoked)
    assert len(unprovoked) <= MOST_UNPROVOKED


def test_every_file_of_records_is_of_a_scenario() -> None:
    files = {path.stem for path in RECORDS.glob("*.yaml")} - {WORDING.stem, LIMITS.stem}
    assert files == set(SCENARIOS)


def _problems(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for member in value:
            yield from _problems(member)
    elif isinstance(value, dict):
        if isinstance(value.get("problem"), str):
            yield value["problem"]
        for member in value.values():
            yield from _problems(member)
