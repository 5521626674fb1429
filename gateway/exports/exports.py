"""Exports as resources: created, read, changed, paused and deleted.

A caller needs to read all topics of an export that it creates, changes or resumes.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from auth.run_tokens import Attempt, RunTokens
from edge.asgi import (
    Receive,
    Route,
    Scope,
    Send,
    caller_of,
    header,
    path_param,
    respond,
    tenant_of,
)
from edge.caller import Caller
from edge.parameters import Query
from edge.problem import invalid
from gateway.exports.planning import Offsets
from gateway.exports.refusals import no_topic, refusals
from gateway.exports.specs import changed, new_spec, patched, paused
from gateway.exports.views import export_view
from gateway.http.decoding import etag, if_match, read_json
from gateway.names import name_errors
from gateway.resources import precondition_failed, respond_no_content
from gateway.tenancy.answers import respond_listing
from gateway.visible import visible_page
from metadata.errors import NotFound
from metadata.exports.exports import ExportRepository
from metadata.exports.types import Export, ExportSpec, LaneState
from openapi.exports import OPERATIONS, ExportCreate, ExportPage, ExportPatch, ExportPut
from store_nodes.errors import StoreError


class ExportRoutes:
    """The routes of exports; `lakes` are the names of the lakes that exports may write to."""

    def __init__(
        self,
        exports: ExportRepository,
        offsets: Offsets,
        lakes: frozenset[str],
        tokens: RunTokens,
        *,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._exports = exports
        self._offsets = offsets
        self._lakes = lakes
        self._tokens = tokens
        self._wall = wall

    def routes(self) -> list[Route]:
        return [
            Route(OPERATIONS["createExport"], self.create),
            Route(OPERATIONS["listExports"], self.page),
            Route(OPERATIONS["getExport"], self.get),
            Route(OPERATIONS["putExport"], self.put),
            Route(OPERATIONS["patchExport"], self.patch),
            Route(OPERATIONS["deleteExport"], self.delete),
            Route(OPERATIONS["pauseExport"], self.pause),
            Route(OPERATIONS["resumeExport"], self.resume),
        ]

    async def create(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_json(scope, receive, ExportCreate)
        caller_of(scope).require("manage", "export", body.name)
        await self._respond(send, 201, await self._create(scope, body, body.name))

    async def put(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 201 for a new export, 200 for a changed one."""
        body = await read_json(scope, receive, ExportPut)
        name, version = path_param(scope, "name"), if_match(header(scope, b"if-match"))
        require_read(caller_of(scope), body.topic)
        try:
            export = await self._update(
                scope, lambda export: changed(body, export, self._wall()), version
            )
        except NotFound as error:
            if version is not None:
                raise precondition_failed("export") from error
            await self._respond(send, 201, await self._create(scope, body, name))
        else:
            await self._respond(send, 200, export)

    async def patch(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 200; members that the body does not name stay."""
        patch = await read_json(scope, receive, ExportPatch)
        version = if_match(header(scope, b"if-match"))
        require_read(caller_of(scope), (await self._find(scope)).spec.topic)
        export = await self._update(
            scope, lambda export: changed(patched(patch, export), export, self._wall()), version
        )
        await self._respond(send, 200, export)

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._respond(send, 200, await self._find(scope))

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        tenant_id, topic = tenant_of(scope), Query(scope).text("topic")
        if topic is not None and (errors := name_errors(topic, "topic")):
            raise invalid("The query parameter topic does not fit.", errors, status=400)
        page = await visible_page(
            scope,
            "export",
            lambda size, token: self._exports.page(
                tenant_id, topic=topic, page_size=size, page_token=token
            ),
        )
        now = self._wall()
        items = [export_view(each, now) for each in page.items]
        await respond_listing(send, ExportPage(items, page.next_token))

    async def delete(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Delete an export; a run that is under way loses its lease and its token."""
        export = await self._find(scope)
        version = if_match(header(scope, b"if-match"))
        async with refusals():
            run = await self._exports.delete(tenant_of(scope), export.name, if_version=version)
        if run is not None:
            await self._tokens.end(Attempt(run.tenant_id, run.uid, run.attempt))
        await respond_no_content(send)

    async def pause(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._respond(send, 200, await self._set_paused(scope, True))

    async def resume(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Resume from the next tick on."""
        require_read(caller_of(scope), (await self._find(scope)).spec.topic)
        await self._respond(send, 200, await self._set_paused(scope, False))

    async def _create(self, scope: Scope, body: ExportPut, name: str) -> Export:
        require_read(caller_of(scope), body.topic)
        tenant_id = tenant_of(scope)
        spec = new_spec(body, name, self._lakes, self._wall())
        topics = await self._exports.topics(tenant_id, spec.topic)
        if not topics and "*" not in spec.topic:
            raise no_topic(spec.topic)
        starts = await self._offsets.starts(topics, spec.start)
        try:
            async with refusals(creates=name):
                return await self._exports.create(tenant_id, spec, starts)
        except NotFound as error:
            raise no_topic(error.name) from error

    async def _set_paused(self, scope: Scope, wanted: bool) -> Export:
        version = if_match(header(scope, b"if-match"))
        return await self._update(
            scope, lambda export: paused(export, wanted, self._wall()), version
        )

    async def _update(
        self, scope: Scope, change: Callable[[Export], ExportSpec], version: int | None
    ) -> Export:
        async with refusals():
            return await self._exports.update(
                tenant_of(scope), path_param(scope, "name"), change, if_version=version
            )

    async def _find(self, scope: Scope) -> Export:
        return await self._exports.get(tenant_of(scope), path_param(scope, "name"))

    async def _respond(self, send: Send, status: int, export: Export) -> None:
        headers = [etag(export.version)]
        if status == 201:
            headers.append((b"location", b"/exports/" + export.name.encode("ascii")))
        view = export_view(export, self._wall(), await self._lanes(export))
        await respond(send, status, msgspec.json.encode(view), headers=headers)

    async def _lanes(self, export: Export) -> list[LaneState]:
        """Return the present lanes; where the store does not answer, those that were read last."""
        topics = await self._exports.topics(export.tenant_id, export.spec.topic)
        try:
            return await self._offsets.states(topics, export.positions)
        except ExceptionGroup as errors:
            if errors.split(StoreError)[1] is not None:
                raise
            return list(export.positions)


def require_read(caller: Caller, pattern: str) -> None:
    """Require that the caller may read every topic that a pattern matches. Raise a 403 Problem.

    A pattern of a grant that matches the text of this pattern matches all that its `*` stands for.
    """
    caller.require("read", "topic", pattern)
