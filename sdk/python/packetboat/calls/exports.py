"""Exports: topics that are written into tables of a lake, run by run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

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
)
from packetboat.models.exports import Export, ExportKind, ExportRun
from packetboat.models.page import Page


def list_exports(topic: str | None, page_size: int, page_token: str | None) -> Call[Page[Export]]:
    return page("/exports", "exports", Export, page_size, page_token, {"topic": topic})


def create_export(name: str, settings: Mapping[str, Any]) -> Call[Export]:
    return change("POST", "/exports", {"name": name} | _body(settings), Export, tagged=True)


def get_export(name: str) -> Call[Export]:
    return fetch(_path(name), Export, tagged=True)


def put_export(name: str, settings: Mapping[str, Any], if_match: str | None) -> Call[Export]:
    return _changed("PUT", _path(name), _body(settings), if_match)


def patch_export(name: str, changes: Mapping[str, Any], if_match: str | None) -> Call[Export]:
    return _changed("PATCH", _path(name), _body(changes), if_match)


def delete_export(name: str, if_match: str | None) -> Call[None]:
    return delete(_path(name), if_match=if_match)


def pause_export(name: str, if_match: str | None) -> Call[Export]:
    return _changed("POST", f"{_path(name)}:pause", None, if_match)


def resume_export(name: str, if_match: str | None) -> Call[Export]:
    return _changed("POST", f"{_path(name)}:resume", None, if_match)


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
    """Sent again it finds the run of kind `export` that waits; of others it may make one more."""
    body: dict[str, Any] = {"kind": kind}
    put(body, topic=topic, partition=partition)
    put(body, from_time=moment(from_time), to_time=moment(to_time))
    put(body, from_offset=from_offset, to_offset=to_offset)
    safe = kind == "export"
    return change("POST", f"{_path(name)}:run", body, ExportRun, safe=safe)


def list_export_runs(name: str, page_size: int, page_token: str | None) -> Call[Page[ExportRun]]:
    return page(f"{_path(name)}/runs", "runs", ExportRun, page_size, page_token)


def get_export_run(name: str, number: int) -> Call[ExportRun]:
    return fetch(_run(name, number), ExportRun)


def cancel_export_run(name: str, number: int) -> Call[ExportRun]:
    return change("POST", f"{_run(name, number)}:cancel", None, ExportRun, safe=True)


def get_export_run_log(name: str, number: int) -> Call[str]:
    request = get(f"{_run(name, number)}/log")
    return Call(request, lambda body: body.decode("utf-8", "replace"), safe=True)


def _changed(
    method: str, path: str, body: dict[str, Any] | None, if_match: str | None
) -> Call[Export]:
    return change(method, path, body, Export, safe=True, if_match=if_match, tagged=True)


def _body(settings: Mapping[str, Any]) -> dict[str, Any]:
    body = dict(settings)
    if isinstance(start := body.get("start"), datetime):
        body["start"] = moment(start)
    return body


def _path(name: str) -> str:
    return f"/exports/{part(name)}"


def _run(name: str, number: int) -> str:
    return f"{_path(name)}/runs/{number}"
