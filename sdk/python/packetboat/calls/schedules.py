"""Messages that are published by the clock."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from packetboat.calls.call import Call, change, delete, fetch, get, page, part, put, reader
from packetboat.calls.content import content_members
from packetboat.models import Page, Schedule, ScheduleMessage, ScheduleRun


class _NextRuns(msgspec.Struct):
    next_runs: tuple[datetime, ...]


def list_schedules(page_size: int, page_token: str | None) -> Call[Page[Schedule]]:
    return page("/schedules", "schedules", Schedule, page_size, page_token)


def create_schedule(name: str, settings: Mapping[str, Any]) -> Call[Schedule]:
    body = {"name": name} | _body(settings)
    return change("POST", "/schedules", body, Schedule, tagged=True)


def get_schedule(name: str) -> Call[Schedule]:
    return fetch(_path(name), Schedule, tagged=True)


def put_schedule(name: str, settings: Mapping[str, Any], if_match: str | None) -> Call[Schedule]:
    return _changed("PUT", _path(name), _body(settings), if_match)


def change_schedule(name: str, changes: Mapping[str, Any], if_match: str | None) -> Call[Schedule]:
    return _changed("PATCH", _path(name), _body(changes), if_match)


def delete_schedule(name: str, if_match: str | None) -> Call[None]:
    return delete(_path(name), if_match=if_match)


def next_runs(name: str, count: int) -> Call[tuple[datetime, ...]]:
    read = reader(_NextRuns)
    request = get(f"{_path(name)}/next", {"count": count})
    return Call(request, lambda body: read(body).next_runs, safe=True)


def pause_schedule(name: str, if_match: str | None) -> Call[Schedule]:
    return _changed("POST", f"{_path(name)}:pause", None, if_match)


def resume_schedule(name: str, if_match: str | None) -> Call[Schedule]:
    return _changed("POST", f"{_path(name)}:resume", None, if_match)


def run_schedule(name: str) -> Call[ScheduleRun]:
    """Not safe: each publishes once more."""
    return change("POST", f"{_path(name)}:run", None, ScheduleRun)


def _changed(
    method: str, path: str, body: dict[str, Any] | None, if_match: str | None
) -> Call[Schedule]:
    return change(method, path, body, Schedule, safe=True, if_match=if_match, tagged=True)


def _body(settings: Mapping[str, Any]) -> dict[str, Any]:
    body = dict(settings)
    if isinstance(message := body.get("message"), ScheduleMessage):
        body["message"] = _message(message)
    return body


def _message(message: ScheduleMessage) -> dict[str, Any]:
    members = content_members(message.data, message.content_type)
    put(
        members,
        key=message.key,
        attributes=message.attributes,
        ttl_seconds=message.ttl_seconds,
        priority=message.priority or None,
    )
    return members


def _path(name: str) -> str:
    return f"/schedules/{part(name)}"
