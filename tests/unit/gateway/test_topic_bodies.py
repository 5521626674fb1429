"""A topic between the API and the rows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from edge.problem import Problem
from gateway.topics.bodies import changed, patched
from metadata.types import Retention, Topic, TopicState
from openapi.topics import TopicPatch

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
OLD = Topic(
    tenant_id=bytes(16),
    uid=bytes(16),
    name="t",
    state=TopicState.ACTIVE,
    partitions=(),
    retention=Retention(),
    dedup_window_s=60,
    labels={"no label of today": "x"},
    version=1,
    created_at=NOW,
    updated_at=NOW,
)


def patch_of(named: dict[str, Any]) -> TopicPatch:
    return msgspec.convert(named, TopicPatch)


def test_a_patch_does_not_judge_the_parts_that_stay() -> None:
    """A topic of an earlier release can be changed, though its labels would be refused today."""
    spec = changed(patched(patch_of({"ack_history": True}), OLD), OLD)
    assert spec.ack_history
    assert spec.labels == OLD.labels
    with pytest.raises(Problem, match="does not fit"):
        patched(patch_of({"labels": {"nor this": "x"}}), OLD)
