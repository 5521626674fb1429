# Generated from openapi/: `make generate`. Do not edit.
"""Calls of exports."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from packetboat.calls.bodies import export_body
from packetboat.calls.call import (
    Call,
    change,
    delete,
    fetch,
    get,
    moment,
    page,
    part,
    put,
    text,
)
from packetboat.models import Page
from packetboat.models.exports import Export, ExportKind, ExportRun


def create_export(name: str, topic: str, settings: Mapping[str, Any]) -> Call[Export]:
    body: dict[str, Any] = {"name": name, "topic": topic, **settings}
    body = export_body(body)
    return change("POST", "/exports", body, Export, tagged=True)


def get_export(name: str) -> Call[Export]:
    return fetch(f"/exports/{part(name)}", Export, tagged=True)


def list_exports(topic: str | None, page_size: int, page_token: str | None) -> Call[Page[Export]]:
    return page("/exports", "exports", Export, page_size, page_token, {"topic": topic})


def put_export(
    name: str, topic: str, settings: Mapping[str, Any], if_match: str | None
) -> Call[Export]:
    body: dict[str, Any] = {"topic": topic, **settings}
    body = export_body(body)
    return change(
        "PUT", f"/exports/{part(name)}", body, Export, safe=True, if_match=if_match, tagged=True
    )


def patch_export(name: str, settings: Mapping[str, Any], if_match: str | None) -> Call[Export]:
    body: dict[str, Any] = {**settings}
    body = export_body(body)
    return change(
        "PATCH", f"/exports/{part(name)}", body, Export, safe=True, if_match=if_match, tagged=True
    )


def delete_export(name: str, if_match: str | None) -> Call[None]:
    return delete(f"/exports/{part(name)}", if_match=if_match)


def pause_export(name: str, if_match: str | None) -> Call[Export]:
    return change(
        "POST",
        f"/exports/{part(name)}:pause",
        None,
        Export,
        safe=True,
        if_match=if_match,
        tagged=True,
    )


def resume_export(name: str, if_match: str | None) -> Call[Export]:
    return change(
        "POST",
        f"/exports/{part(name)}:resume",
        None,
        Export,
        safe=True,
        if_match=if_match,
        tagged=True,
    )


def run_export(
    name: str,
    kind: ExportKind,
    from_time: datetime | None,
    to_time: datetime | None,
    from_offset: int | None,
    to_offset: int | None,
    topic: str | None,
    partition: int | None,
) -> Call[ExportRun]:
    body: dict[str, Any] = {"kind": kind}
    put(
        body,
        from_time=moment(from_time),
        to_time=moment(to_time),
        from_offset=from_offset,
        to_offset=to_offset,
        topic=topic,
        partition=partition,
    )
    return change("POST", f"/exports/{part(name)}:run", body, ExportRun, safe=kind == "export")


def list_export_runs(name: str, page_size: int, page_token: str | None) -> Call[Page[ExportRun]]:
    return page(f"/exports/{part(name)}/runs", "runs", ExportRun, page_size, page_token)


def get_export_run(name: str, number: int) -> Call[ExportRun]:
    return fetch(f"/exports/{part(name)}/runs/{number}", ExportRun)


def cancel_export_run(name: str, number: int) -> Call[ExportRun]:
    return change("POST", f"/exports/{part(name)}/runs/{number}:cancel", None, ExportRun, safe=True)


def get_export_run_log(name: str, number: int) -> Call[str]:
    return Call(get(f"/exports/{part(name)}/runs/{number}/log"), text, safe=True)
