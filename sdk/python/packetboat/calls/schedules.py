# Generated from openapi/: `make generate`. Do not edit.
"""Calls of schedules."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from packetboat.calls.bodies import schedule_body
from packetboat.calls.call import (
    Call,
    change,
    delete,
    fetch,
    get,
    member,
    page,
    part,
)
from packetboat.models import Page, Schedule, ScheduleMessage, ScheduleRun


def create_schedule(
    name: str, topic: str, cron: str, message: ScheduleMessage, settings: Mapping[str, Any]
) -> Call[Schedule]:
    body: dict[str, Any] = {
        "name": name,
        "topic": topic,
        "cron": cron,
        "message": message,
        **settings,
    }
    body = schedule_body(body)
    return change("POST", "/schedules", body, Schedule, tagged=True)


def get_schedule(name: str) -> Call[Schedule]:
    return fetch(f"/schedules/{part(name)}", Schedule, tagged=True)


def list_schedules(page_size: int, page_token: str | None) -> Call[Page[Schedule]]:
    return page("/schedules", "schedules", Schedule, page_size, page_token)


def put_schedule(
    name: str,
    topic: str,
    cron: str,
    message: ScheduleMessage,
    settings: Mapping[str, Any],
    if_match: str | None,
) -> Call[Schedule]:
    body: dict[str, Any] = {"topic": topic, "cron": cron, "message": message, **settings}
    body = schedule_body(body)
    return change(
        "PUT", f"/schedules/{part(name)}", body, Schedule, safe=True, if_match=if_match, tagged=True
    )


def change_schedule(name: str, settings: Mapping[str, Any], if_match: str | None) -> Call[Schedule]:
    body: dict[str, Any] = {**settings}
    body = schedule_body(body)
    return change(
        "PATCH",
        f"/schedules/{part(name)}",
        body,
        Schedule,
        safe=True,
        if_match=if_match,
        tagged=True,
    )


def delete_schedule(name: str, if_match: str | None) -> Call[None]:
    return delete(f"/schedules/{part(name)}", if_match=if_match)


def next_runs(name: str, count: int) -> Call[tuple[datetime, ...]]:
    return Call(
        get(f"/schedules/{part(name)}/next", {"count": count}),
        member("next_runs", tuple[datetime, ...]),
        safe=True,
    )


def pause_schedule(name: str, if_match: str | None) -> Call[Schedule]:
    return change(
        "POST",
        f"/schedules/{part(name)}:pause",
        None,
        Schedule,
        safe=True,
        if_match=if_match,
        tagged=True,
    )


def resume_schedule(name: str, if_match: str | None) -> Call[Schedule]:
    return change(
        "POST",
        f"/schedules/{part(name)}:resume",
        None,
        Schedule,
        safe=True,
        if_match=if_match,
        tagged=True,
    )


def run_schedule(name: str) -> Call[ScheduleRun]:
    return change("POST", f"/schedules/{part(name)}:run", None, ScheduleRun)
