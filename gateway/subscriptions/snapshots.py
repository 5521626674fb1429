"""Control plane of snapshots: take, get, list, delete; expired ones are swept."""

from __future__ import annotations

import asyncio

import structlog

from edge.asgi import Route
from edge.problem import Problem, invalid
from gateway.names import label_errors, name_errors
from gateway.resources import Call, Resource, Shown, taken
from metadata.errors import MetadataError
from metadata.subscriptions.snapshots import Snapshot, SnapshotRepository, TooManySnapshots
from openapi import positions as contract

SWEEP_EVERY_S = 60.0
SWEPT_AT_ONCE = 100
_log = structlog.get_logger("packetboat.snapshots")


def view(snapshot: Snapshot) -> contract.Snapshot:
    """Return a snapshot as the API shows it."""
    return contract.Snapshot(
        name=snapshot.name,
        topic=snapshot.topic_name,
        subscription=snapshot.subscription_name,
        labels=dict(snapshot.labels),
        created_at=snapshot.created_at,
        expires_at=snapshot.expires_at,
    )


class SnapshotRoutes:
    """A snapshot is taken of one subscription and serves all of its topic."""

    def __init__(self, snapshots: SnapshotRepository) -> None:
        self._snapshots = snapshots

    def routes(self) -> list[Route]:
        table = contract.OPERATIONS
        snapshots = Resource("snapshot", table["getSnapshot"], _shown)
        return [
            snapshots.creates(
                table["createSnapshot"],
                contract.SnapshotCreate,
                self._create,
                taken("snapshot", "names are unique per tenant"),
            ),
            snapshots.lists(table["listSnapshots"], self._snapshots.page),
            snapshots.gets(table["getSnapshot"], self._snapshots.get),
            snapshots.deletes(table["deleteSnapshot"], self._delete),
        ]

    async def _create(self, call: Call, body: contract.SnapshotCreate) -> Snapshot:
        """Take a snapshot; every ack that was answered before the call is in it."""
        await call.caller.require("manage", "snapshot", body.name)
        errors = name_errors(body.name) + label_errors(body.labels)
        if errors:
            raise invalid("The body does not fit.", errors)
        try:
            return await self._snapshots.create(
                call.tenant_id,
                call.path("name"),
                body.name,
                expires_in_s=body.expires_in_seconds,
                labels=body.labels,
            )
        except TooManySnapshots as error:
            raise Problem.of("too-many-snapshots", f"{error}.") from error

    async def _delete(self, call: Call) -> None:
        await self._snapshots.delete(call.tenant_id, call.name)


def _shown(snapshot: Snapshot) -> Shown:
    return Shown(view(snapshot), snapshot.name)


async def sweep(snapshots: SnapshotRepository) -> None:
    """Remove the rows of expired snapshots for ever. Any process may; their pins ended before."""
    while True:
        try:
            swept = await snapshots.sweep(SWEPT_AT_ONCE)
        except MetadataError as error:
            _log.debug("expired snapshots stay for now", error=str(error))
            swept = 0
        if swept:
            _log.info("expired snapshots removed", count=swept)
        if swept < SWEPT_AT_ONCE:
            await asyncio.sleep(SWEEP_EVERY_S)
