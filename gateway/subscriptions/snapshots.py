"""Control plane of snapshots: take, get, list, delete; expired ones are swept."""

from __future__ import annotations

import asyncio

import msgspec
import structlog

from edge.asgi import Receive, Route, Scope, Send, caller_of, path_param, respond, tenant_of
from edge.problem import Problem, invalid
from gateway.http.decoding import read_json
from gateway.names import label_errors, name_errors
from gateway.resources import respond_no_content
from gateway.visible import visible_page
from metadata.errors import Conflict, MetadataError
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
        return [
            Route(contract.OPERATIONS["createSnapshot"], self.create),
            Route(contract.OPERATIONS["listSnapshots"], self.page),
            Route(contract.OPERATIONS["getSnapshot"], self.get),
            Route(contract.OPERATIONS["deleteSnapshot"], self.delete),
        ]

    async def create(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take a snapshot; every ack that was answered before the call is in it."""
        body = await read_json(scope, receive, contract.SnapshotCreate)
        caller_of(scope).require("manage", "snapshot", body.name)
        errors = name_errors(body.name) + label_errors(body.labels)
        if errors:
            raise invalid("The body does not fit.", errors)
        try:
            made = await self._snapshots.create(
                tenant_of(scope),
                path_param(scope, "name"),
                body.name,
                expires_in_s=body.expires_in_seconds,
                labels=body.labels,
            )
        except Conflict as error:
            raise Problem(
                409,
                "snapshot-exists",
                "Snapshot exists",
                f"There is a snapshot {body.name!r} already; names are unique per tenant.",
            ) from error
        except TooManySnapshots as error:
            raise Problem(409, "too-many-snapshots", "Too many snapshots", f"{error}.") from error
        location = (b"location", b"/snapshots/" + made.name.encode("ascii"))
        await respond(send, 201, msgspec.json.encode(view(made)), headers=[location])

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = await self._snapshots.get(tenant_of(scope), path_param(scope, "name"))
        await respond(send, 200, msgspec.json.encode(view(found)))

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        tenant_id = tenant_of(scope)
        page = await visible_page(
            scope,
            "snapshot",
            lambda size, token: self._snapshots.page(tenant_id, page_size=size, page_token=token),
        )
        listing = contract.SnapshotPage([view(each) for each in page.items], page.next_token)
        await respond(send, 200, msgspec.json.encode(listing))

    async def delete(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._snapshots.delete(tenant_of(scope), path_param(scope, "name"))
        await respond_no_content(send)


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
