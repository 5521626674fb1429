"""A schedule as the API shows it."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from gateway.schedules.bodies import MessageBody, view
from metadata.topics.schedules import Schedule

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def shown(data: bytes, content_type: str | None) -> dict[str, Any]:
    body = MessageBody(data_base64=b64encode(data).decode(), content_type=content_type)
    schedule = Schedule(
        tenant_id=bytes(16),
        uid=bytes(16),
        name="it",
        topic_uid=bytes(16),
        topic_name="t",
        cron="@daily",
        time_zone="UTC",
        missed_runs="skip",
        message=msgspec.msgpack.encode(body.message()),
        paused=True,
        next_at=None,
        last_at=None,
        last_message_id=None,
        runs=0,
        missed=0,
        failure=None,
        labels={},
        version=1,
        created_at=NOW,
        updated_at=NOW,
    )
    answer: dict[str, Any] = json.loads(msgspec.json.encode(view(schedule, NOW)))
    return {k: v for k, v in answer["message"].items() if k.startswith("data")}


@pytest.mark.parametrize(
    ("data", "content_type", "expected"),
    [
        (b'{"a": 1}', "application/json", {"data": {"a": 1}}),
        (b"{not", "application/json", {"data_base64": b64encode(b"{not").decode()}),
        (b'"\xff"', "application/json", {"data_base64": b64encode(b'"\xff"').decode()}),
        (b"{not", "text/plain", {"data": "{not"}),
        (b"{not", None, {"data": "{not"}),
        (b"\xff", None, {"data_base64": "/w=="}),
    ],
)
def test_a_body_that_is_not_what_its_type_says_does_not_spoil_the_answer(
    data: bytes, content_type: str | None, expected: dict[str, Any]
) -> None:
    assert shown(data, content_type) == expected
