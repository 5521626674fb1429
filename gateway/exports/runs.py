"""Runs of exports, as a tenant starts, watches and cancels them.

A run of new messages is planned once its runner has opened the table. The ranges of a backfill and
of a reconciliation are fixed here, when the run is asked for.
"""

from __future__ import annotations

import re
from datetime import datetime

import msgspec

from auth.run_tokens import Attempt, RunTokens
from edge.asgi import (
    Receive,
    Route,
    Scope,
    Send,
    caller_of,
    path_param,
    read_body,
    respond,
    tenant_of,
)
from edge.parameters import Query
from edge.problem import FieldError, Problem, invalid, not_found
from gateway.exports.exports import require_read
from gateway.exports.planning import Offsets, Window
from gateway.exports.refusals import refusals
from gateway.exports.specs import parsed_time
from gateway.exports.views import run_view
from gateway.http.decoding import MAX_BODY_BYTES, decode_json
from gateway.tenancy.answers import page_size_of, respond_listing
from metadata.exports.exports import ExportRepository
from metadata.exports.runs import ExportRunRepository
from metadata.exports.types import BACKFILL, EXPORT, MAINTAIN, RUNNING, Export, LaneRange, Run
from openapi.export_runs import OPERATIONS, ExportRunPage, ExportRunStart

TEXT = b"text/plain; charset=utf-8"
WINDOW = ("from_time", "to_time", "from_offset", "to_offset", "topic", "partition")
_NUMBER = re.compile(r"[1-9][0-9]{0,15}")


class ExportRunRoutes:
    """The routes of runs; `max_messages` is the limit of one run."""

    def __init__(
        self,
        exports: ExportRepository,
        runs: ExportRunRepository,
        offsets: Offsets,
        tokens: RunTokens,
        max_messages: int,
    ) -> None:
        self._exports = exports
        self._runs = runs
        self._offsets = offsets
        self._tokens = tokens
        self._max_messages = max_messages

    def routes(self) -> list[Route]:
        return [
            Route(OPERATIONS["runExport"], self.run),
            Route(OPERATIONS["listExportRuns"], self.page),
            Route(OPERATIONS["getExportRun"], self.get),
            Route(OPERATIONS["cancelExportRun"], self.cancel),
            Route(OPERATIONS["getExportRunLog"], self.log),
        ]

    async def run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 201 with a new run, or 200 with a run that waits already and does the same."""
        text = await read_body(scope, receive, MAX_BODY_BYTES)
        body = decode_json(text, ExportRunStart) if text else ExportRunStart()
        window = window_of(body)
        export = await self._exports.get(tenant_of(scope), path_param(scope, "name"))
        await require_read(caller_of(scope), export.spec.topic)
        if export.spec.format == "parquet" and body.kind != EXPORT:
            raise _unfit("kind", f"export: plain files, which {export.name} writes, have no others")
        ranges = await self._ranges(export, body, window)
        async with refusals():
            run, made = await self._runs.create(export.tenant_id, export.name, body.kind, ranges)
        headers = []
        if made:
            path = f"/exports/{run.export}/runs/{run.number}"
            headers.append((b"location", path.encode("ascii")))
        view = msgspec.json.encode(run_view(run))
        await respond(send, 201 if made else 200, view, headers=headers)

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = Query(scope)
        page = await self._runs.page(
            tenant_of(scope),
            path_param(scope, "name"),
            page_size=page_size_of(query),
            page_token=query.text("page_token") or None,
        )
        items = [run_view(each, listed=True) for each in page.items]
        await respond_listing(send, ExportRunPage(items, page.next_token))

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        run = await self._runs.get(tenant_of(scope), path_param(scope, "name"), _number(scope))
        await _respond(send, run)

    async def cancel(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Cancel a run: its runner reads nothing more, and hears of it at the next renewal. A run
        that has ended stays as it is."""
        name, number = path_param(scope, "name"), _number(scope)
        run = await self._runs.cancel(tenant_of(scope), name, number)
        if run.state == RUNNING:
            await self._tokens.end(Attempt(run.tenant_id, run.uid, run.attempt))
        await _respond(send, run)

    async def log(self, scope: Scope, receive: Receive, send: Send) -> None:
        name, number = path_param(scope, "name"), _number(scope)
        text = await self._runs.log(tenant_of(scope), name, number)
        await respond(send, 200, text.encode("utf-8", "replace"), TEXT)

    async def _ranges(
        self, export: Export, body: ExportRunStart, window: Window
    ) -> list[LaneRange] | None:
        """Return the ranges of a run; None for one that is planned later, or reads no messages."""
        if body.kind in (EXPORT, MAINTAIN):
            return None
        topics = await self._exports.topics(export.tenant_id, export.spec.topic)
        if body.topic is not None:
            topics = tuple(topic for topic in topics if topic.name == body.topic)
            if not topics:
                raise _unfit("topic", f"no topic of the export is {body.topic!r}")
        backfills = body.kind == BACKFILL
        if not backfills and body.from_time is None and body.from_offset is None:
            window = window._replace(from_time=_begin(export))
        ranges = await self._offsets.ranges(
            topics,
            window,
            partition=body.partition,
            upto=None if backfills else export.positions,
        )
        if not ranges:
            raise Problem.of(
                "nothing-there",
                "No message is stored in what was asked for"
                + ("." if backfills else ", as far as it is exported."),
            )
        messages = sum(each.end - each.start for each in ranges)
        if messages > self._max_messages:
            raise Problem.of(
                "too-many-messages",
                f"There are {messages} messages in what was asked for, and a run reads at most "
                f"{self._max_messages}: ask for parts of it, one after the other.",
                extra={"limit": self._max_messages, "messages": messages},
            )
        return ranges


def window_of(body: ExportRunStart) -> Window:
    """Return the window that a body asks for. Raise a 422 Problem."""
    given = [field for field in WINDOW if getattr(body, field) is not None]
    if body.kind in (EXPORT, MAINTAIN):
        if given:
            detail = f"is for the kinds backfill and reconcile, and this one is {body.kind}"
            raise invalid("The body does not fit.", [FieldError(field, detail) for field in given])
        return Window()
    errors = [
        FieldError(f"{end}_offset", f"give either {end}_time or {end}_offset")
        for end in ("from", "to")
        if {f"{end}_time", f"{end}_offset"} <= set(given)
    ]
    if body.kind == BACKFILL and not {"from_time", "from_offset"} & set(given):
        errors.append(FieldError("from_time", "say from when on, or from_offset"))
    window = Window(body.from_time, body.to_time, body.from_offset, body.to_offset)
    if window.from_time and window.to_time and window.from_time >= window.to_time:
        errors.append(FieldError("to_time", "must be later than from_time"))
    if None not in (body.from_offset, body.to_offset) and not _ascend(body):
        errors.append(FieldError("to_offset", "must be above from_offset"))
    if errors:
        raise invalid("The body does not fit.", errors)
    return window


def _ascend(body: ExportRunStart) -> bool:
    return (body.from_offset or 0) < (body.to_offset or 0)


def _begin(export: Export) -> datetime | None:
    """Return the time from which on messages are exported; None is from the first one on."""
    if export.spec.start == "earliest":
        return None
    return parsed_time(export.spec.start) or export.created_at


def _unfit(field: str, detail: str) -> Problem:
    return invalid("The body does not fit.", [FieldError(field, detail)])


def _number(scope: Scope) -> int:
    """Return the number of a run. Raise a 404 Problem for another text: there is no such run."""
    text = path_param(scope, "run")
    if not _NUMBER.fullmatch(text):
        raise not_found("run", text[:80])
    return int(text)


async def _respond(send: Send, run: Run) -> None:
    await respond(send, 200, msgspec.json.encode(run_view(run)))
