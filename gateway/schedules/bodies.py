"""Schedules between the API and the rows: the rules across fields, changes and views."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from datetime import UTC, datetime
from itertools import islice
from typing import Any, cast

import msgspec
from msgspec import UNSET

from cron.plan import ATTRIBUTE_SCHEDULE, ATTRIBUTE_TIME, BadSchedule, check, next_run, runs_after
from edge.attributes import check_attributes, longer_than
from edge.problem import FieldError, Problem, invalid
from gateway.http.merge_patch import merged_into
from gateway.names import label_errors, name_errors
from metadata.topics.schedules import Schedule, ScheduleSpec
from openapi import schedules as contract
from openapi.contract import Body
from openapi.publish import MAX_ATTRIBUTES, MAX_ID_BYTES, MAX_KEY_BYTES
from schemas.definition import is_json
from store_nodes.record_batch import Message

SHOWN_RUNS = 3
OWN_ATTRIBUTES = (ATTRIBUTE_SCHEDULE, ATTRIBUTE_TIME)
_message = msgspec.msgpack.Decoder(Message)
_raw_json = msgspec.json.Decoder(msgspec.Raw)


def message_of(body: contract.ScheduleMessage) -> Message:
    """Return the message that each run publishes; raise a 422 Problem."""
    data, content_type = _data(body)
    _check_text("message.content_type", content_type, MAX_ID_BYTES)
    if content_type is not None and not (content_type.isascii() and content_type.isprintable()):
        raise _refused("message.content_type", "printable ASCII")
    _check_text("message.key", body.key, MAX_KEY_BYTES)
    check_attributes(body.attributes, "message.attributes")
    if len(body.attributes) > MAX_ATTRIBUTES - len(OWN_ATTRIBUTES):
        most = MAX_ATTRIBUTES - len(OWN_ATTRIBUTES)
        raise _refused("message.attributes", f"at most {most}; runs add {len(OWN_ATTRIBUTES)}")
    return Message(
        data,
        content_type,
        body.key,
        body.attributes or None,
        priority=body.priority,
        ttl_ms=0 if body.ttl_seconds is None else max(1, round(body.ttl_seconds * 1000)),
    )


def _data(body: contract.ScheduleMessage) -> tuple[bytes, str | None]:
    if (body.data is UNSET) == (body.data_base64 is None):
        raise _refused("message.data", "give either data or data_base64")
    if body.data_base64 is not None:
        try:
            return b64decode(body.data_base64, validate=True), body.content_type
        except (binascii.Error, ValueError):
            raise _refused("message.data_base64", "is not base64") from None
    if body.content_type is None and not isinstance(body.data, str):
        return msgspec.json.encode(body.data), "application/json"
    if body.content_type is not None and is_json(body.content_type):
        return msgspec.json.encode(body.data), body.content_type
    if not isinstance(body.data, str):
        raise _refused("message.data", "must be a string where content_type is not JSON")
    return body.data.encode("utf-8", "replace"), body.content_type or "text/plain"


def checked(body: contract.SchedulePut) -> Message:
    """Return the message of a body; raise a 422 Problem for a body that fits no schedule, whichever
    there is."""
    _refuse(label_errors(body.labels) + _clock_errors(body))
    return message_of(body.message)


def _check_changes(body: contract.SchedulePut, present: contract.SchedulePut) -> None:
    """Raise a 422 Problem for the parts of a body that fit no schedule. Parts that stay as they are
    in `present` are not looked at: rules for new ones may be stricter."""
    errors = []
    if body.labels != present.labels:
        errors += label_errors(body.labels)
    if (body.cron, body.time_zone) != (present.cron, present.time_zone):
        errors += _clock_errors(body)
    _refuse(errors)
    if body.message != present.message:
        message_of(body.message)


def _refuse(errors: list[FieldError]) -> None:
    if errors:
        raise invalid("The body does not fit.", errors)


def new_spec(
    body: contract.SchedulePut, name: str, topic_uid: bytes, now: datetime, message: Message
) -> ScheduleSpec:
    """Return the schedule that a checked body asks for. Raise a 422 Problem for its name."""
    _refuse(name_errors(name))
    next_at = next_run(body.cron, body.time_zone, now)
    return _spec(body, name, topic_uid, next_at, message)


def changed(
    body: contract.SchedulePut, schedule: Schedule, topic_uid: bytes, now: datetime
) -> ScheduleSpec:
    """Return the changed schedule: its next run stays where the clock is not changed, and no run is
    made up for a time in which it was paused. Raise a 409 Problem for another name."""
    if body.name is not UNSET and body.name != schedule.name:
        raise Problem.of(
            "immutable-field",
            f"name cannot be changed: it is {schedule.name!r}.",
            errors=[FieldError("name", f"it is {schedule.name!r}")],
        )
    next_at = schedule.next_at
    same_clock = (body.cron, body.time_zone) == (schedule.cron, schedule.time_zone)
    if not same_clock or (schedule.paused and not body.paused):
        next_at = next_run(body.cron, body.time_zone, now)
    stays = body.message == put_of(schedule).message
    message = stored_message(schedule) if stays else message_of(body.message)
    return _spec(body, schedule.name, topic_uid, next_at, message)


def _spec(
    body: contract.SchedulePut,
    name: str,
    topic_uid: bytes,
    next_at: datetime | None,
    message: Message,
) -> ScheduleSpec:
    return ScheduleSpec(
        name=name,
        topic_uid=topic_uid,
        cron=body.cron,
        time_zone=body.time_zone,
        missed_runs=body.missed_runs,
        message=msgspec.msgpack.encode(message),
        next_at=next_at,
        paused=body.paused,
        labels=body.labels,
    )


def put_of(schedule: Schedule) -> contract.SchedulePut:
    """Return the body that a caller would ask with for the schedule as it is."""
    message = stored_message(schedule)
    return contract.SchedulePut(
        topic=schedule.topic_name,
        cron=schedule.cron,
        message=contract.ScheduleMessage(
            data_base64=b64encode(message.data).decode(), **_surroundings(message)
        ),
        name=schedule.name,
        time_zone=schedule.time_zone,
        missed_runs=cast(contract.MissedRuns, schedule.missed_runs),
        paused=schedule.paused,
        labels=dict(schedule.labels),
    )


def patched(patch: Body, schedule: Schedule) -> contract.SchedulePut:
    """Return what a patch asks for. The data of a message is replaced as a whole; where none is
    given, its bytes stay. Raise a 422 Problem."""
    present = put_of(schedule)
    message = getattr(patch, "message", UNSET)
    if message is not UNSET and message.data is not UNSET:
        present.message.data_base64 = None
    body = merged_into(patch, present)
    _check_changes(body, present)
    return body


def resumed(schedule: Schedule, paused: bool, now: datetime) -> ScheduleSpec:
    """Return the same schedule, paused or not."""
    body = put_of(schedule)
    body.paused = paused
    return changed(body, schedule, schedule.topic_uid, now)


def stored_message(schedule: Schedule) -> Message:
    return _message.decode(schedule.message)


def view(schedule: Schedule, now: datetime) -> contract.Schedule:
    """Return a schedule as the API shows it."""
    return contract.Schedule(
        name=schedule.name,
        topic=schedule.topic_name,
        cron=schedule.cron,
        time_zone=schedule.time_zone,
        missed_runs=cast(contract.MissedRuns, schedule.missed_runs),
        message=_message_view(stored_message(schedule)),
        paused=schedule.paused,
        next_runs=[] if schedule.paused else _coming(schedule, now),
        last_run=schedule.last_at,
        last_message_id=schedule.last_message_id,
        runs=schedule.runs,
        missed=schedule.missed,
        failure=schedule.failure,
        labels=dict(schedule.labels),
        created_at=schedule.created_at,
        updated_at=schedule.updated_at,
    )


def coming_runs(schedule: Schedule, now: datetime, count: int) -> list[datetime]:
    """Return the times of the next runs of a schedule that is not paused."""
    return list(islice(runs_after(schedule.cron, schedule.time_zone, now), count))


def _coming(schedule: Schedule, now: datetime) -> list[datetime]:
    """Return the coming runs, beginning with the next one or the one that is due."""
    if schedule.next_at is None:
        return []
    later = coming_runs(schedule, max(now, schedule.next_at), SHOWN_RUNS - 1)
    return [schedule.next_at.astimezone(UTC), *later]


def _message_view(message: Message) -> contract.ScheduledMessage:
    return contract.ScheduledMessage(**_surroundings(message), **_data_view(message))


def _surroundings(message: Message) -> dict[str, Any]:
    """Return the members of a message but its data."""
    return {
        "content_type": message.content_type,
        "key": message.key,
        "attributes": message.attributes or {},
        "ttl_seconds": message.ttl_ms / 1000 if message.ttl_ms else None,
        "priority": message.priority,
    }


def _data_view(message: Message) -> dict[str, Any]:
    """Return the data as JSON, or in base64 where it is not what its content type says: an answer
    has to be JSON as a whole."""
    try:
        text = message.data.decode("utf-8")
        if message.content_type is None or not is_json(message.content_type):
            return {"data": text}
        return {"data": _raw_json.decode(message.data)}
    except (ValueError, msgspec.DecodeError, RecursionError):
        return {"data_base64": b64encode(message.data).decode()}


def _clock_errors(body: contract.SchedulePut) -> list[FieldError]:
    try:
        check(body.cron, body.time_zone)
    except BadSchedule as error:
        return [FieldError(error.field, str(error))]
    return []


def _check_text(field: str, text: str | None, limit_bytes: int) -> None:
    if text is not None and (not text or longer_than(text, limit_bytes)):
        raise _refused(field, f"1 to {limit_bytes} bytes of UTF-8")


def _refused(field: str, detail: str) -> Problem:
    return invalid("The body does not fit.", [FieldError(field, detail)])
