"""Exports as resources: created, read, changed, paused and deleted.

A caller needs to read all topics of an export that it creates, changes or resumes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial

from auth.run_tokens import Attempt, RunTokens
from edge.asgi import Route
from edge.caller import Caller
from edge.expressions.ahead import read_ahead
from edge.problem import invalid
from gateway.exports.planning import Offsets
from gateway.exports.refusals import no_topic, refusals
from gateway.exports.specs import changed, new_spec, patched, paused
from gateway.exports.views import export_view
from gateway.names import name_errors
from gateway.resources import Call, ReadPage, Resource, Shown, taken
from metadata.errors import NotFound
from metadata.exports.exports import ExportRepository
from metadata.exports.types import Export, ExportSpec, LaneState
from openapi import exports as contract
from openapi.contract import Body
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
        table = contract.OPERATIONS
        exports = Resource("export", table["getExport"], self._shown)
        return [
            exports.creates(
                table["createExport"], contract.ExportCreate, self._create, taken("export")
            ),
            exports.lists_selected(table["listExports"], self._select),
            exports.shows(table["getExport"], self._get),
            exports.puts(table["putExport"], contract.ExportPut, self._put, self._create),
            exports.changes(table["patchExport"], contract.ExportPatch, self._patch),
            exports.deletes(table["deleteExport"], self._delete),
            exports.shows(table["pauseExport"], self._pause),
            exports.shows(table["resumeExport"], self._resume),
        ]

    async def _create(self, call: Call, body: contract.ExportPut) -> Shown:
        await require_read(call.caller, body.topic)
        await read_ahead(call.scope, body.filter)
        spec = new_spec(body, call.name, self._lakes, self._wall())
        topics = await self._exports.topics(call.tenant_id, spec.topic)
        if not topics and "*" not in spec.topic:
            raise no_topic(spec.topic)
        starts = await self._offsets.starts(topics, spec.start)
        try:
            async with refusals():
                made = await self._exports.create(call.tenant_id, spec, starts)
        except NotFound as error:
            raise no_topic(error.name) from error
        return await self._whole(made)

    async def _put(self, call: Call, body: contract.ExportPut) -> Shown:
        await require_read(call.caller, body.topic)
        await read_ahead(call.scope, body.filter)
        return await self._update(call, lambda export: changed(body, export, self._wall()))

    async def _patch(self, call: Call, patch: Body) -> Shown:
        await require_read(call.caller, (await self._find(call)).spec.topic)
        await read_ahead(call.scope, getattr(patch, "filter", None) or None)
        return await self._update(
            call, lambda export: changed(patched(patch, export), export, self._wall())
        )

    async def _get(self, call: Call) -> Shown:
        return await self._whole(await self._find(call))

    async def _select(self, call: Call) -> ReadPage[Export]:
        topic = call.query.text("topic")
        if topic is not None and (errors := name_errors(topic, "topic")):
            raise invalid("The query parameter topic does not fit.", errors, status=400)
        return partial(self._exports.page, topic=topic)

    async def _delete(self, call: Call) -> None:
        """Delete an export; a run that is under way loses its lease and its token."""
        run = await self._exports.delete(call.tenant_id, call.name, if_version=call.if_version)
        if run is not None:
            await self._tokens.end(Attempt(run.tenant_id, run.uid, run.attempt))

    async def _pause(self, call: Call) -> Shown:
        return await self._update(call, lambda export: paused(export, True, self._wall()))

    async def _resume(self, call: Call) -> Shown:
        """Resume from the next tick on."""
        await require_read(call.caller, (await self._find(call)).spec.topic)
        return await self._update(call, lambda export: paused(export, False, self._wall()))

    async def _update(self, call: Call, change: Callable[[Export], ExportSpec]) -> Shown:
        export = await self._exports.update(
            call.tenant_id, call.name, change, if_version=call.if_version
        )
        return await self._whole(export)

    async def _find(self, call: Call) -> Export:
        return await self._exports.get(call.tenant_id, call.name)

    def _shown(self, export: Export, lanes: Sequence[LaneState] | None = None) -> Shown:
        """Show an export; without lanes it is an item of a listing."""
        return Shown(export_view(export, self._wall(), lanes), export.name, export.version)

    async def _whole(self, export: Export) -> Shown:
        """Show an export with its lanes as they are now."""
        return self._shown(export, await self._lanes(export))

    async def _lanes(self, export: Export) -> list[LaneState]:
        """Return the present lanes; where the store does not answer, those that were read last."""
        topics = await self._exports.topics(export.tenant_id, export.spec.topic)
        try:
            return await self._offsets.states(topics, export.positions)
        except ExceptionGroup as errors:
            if errors.split(StoreError)[1] is not None:
                raise
            return list(export.positions)


async def require_read(caller: Caller, pattern: str) -> None:
    """Require that the caller may read every topic that a pattern matches. Raise a 403 Problem.

    A pattern of a grant that matches the text of this pattern matches all that its `*` stands for.
    """
    await caller.require("read", "topic", pattern)
