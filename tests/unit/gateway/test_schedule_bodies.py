"""A schedule as the API shows it."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from edge.problem import Problem
from gateway.schedules.bodies import (
    changed,
    message_of,
    patched,
    resumed,
    stored_message,
    view,
)
from metadata.topics.schedules import Schedule
from openapi.schedules import ScheduleMessage, SchedulePatch
from store_nodes.record_batch import Message

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def scheduled(body: ScheduleMessage) -> Schedule:
    return Schedule(
        tenant_id=bytes(16),
        uid=bytes(16),
        name="it",
        topic_uid=bytes(16),
        topic_name="t",
        cron="@daily",
        time_zone="UTC",
        missed_runs="skip",
        message=msgspec.msgpack.encode(message_of(body)),
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


def shown(data: bytes, content_type: str | None) -> dict[str, Any]:
    body = ScheduleMessage(data_base64=b64encode(data).decode(), content_type=content_type)
    schedule = scheduled(body)
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


BODY = ScheduleMessage(
    data_base64=b64encode(b'{"a":  1}').decode(),
    content_type="application/json",
    key="k",
    attributes={"a": "1", "b": "2"},
    ttl_seconds=5,
)


def message_after(**message: Any) -> Message:
    schedule = scheduled(BODY)
    patch = msgspec.convert({"message": message}, SchedulePatch)
    body = patched(patch, schedule)
    return stored_message(
        replace(schedule, message=changed(body, schedule, bytes(16), NOW).message)
    )


def test_a_patch_of_one_member_of_the_message_keeps_the_others_and_the_very_bytes() -> None:
    before = stored_message(scheduled(BODY))
    after = message_after(key="other", attributes={"a": None, "c": "3"})
    assert after.attributes == {"b": "2", "c": "3"}
    assert (after.key, after.data, after.ttl_ms) == ("other", before.data, before.ttl_ms)
    assert message_after(ttl_seconds=None, priority=None).ttl_ms == 0


@pytest.mark.parametrize(
    ("given", "data"),
    [({"data": {"b": 2}}, b'{"b":2}'), ({"data": None}, b"null"), ({"data_base64": "AA=="}, b"\0")],
)
def test_data_is_replaced_as_a_whole(given: dict[str, Any], data: bytes) -> None:
    assert message_after(**given).data == data
    assert message_after(**given).key == "k"


@pytest.mark.parametrize(
    "named", [{"missed_runs": "all"}, {"paused": False}, {"labels": {"a": "b"}}]
)
def test_a_patch_does_not_judge_the_parts_that_stay(named: dict[str, Any]) -> None:
    """You can change a schedule of an earlier release, or of a zone that was renamed since."""
    message = Message(b"{}", None, "k", {f"a{number}": "" for number in range(100)})
    made = scheduled(BODY)
    old = replace(made, cron="@never", time_zone="Old/Zone", paused=False)
    old = replace(old, message=msgspec.msgpack.encode(message))
    body = patched(msgspec.convert(named, SchedulePatch), old)
    spec = changed(body, old, bytes(16), NOW)
    assert (spec.cron, spec.time_zone, spec.message) == ("@never", "Old/Zone", old.message)
    assert resumed(old, True, NOW).message == old.message
    with pytest.raises(Problem, match="does not fit"):
        patched(msgspec.convert({"cron": "@often"}, SchedulePatch), old)
