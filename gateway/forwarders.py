"""Serves the live forwarders, the load of each, and the hints of the scheduler."""

from __future__ import annotations

import msgspec

from edge.asgi import Receive, Route, Scope, Send, respond, tenant_of
from gateway.commands.forwarder_view import document, named_in
from metadata.delivery.fleet import FleetRepository
from metadata.delivery.hints import HintRepository
from openapi.forwarders import OPERATIONS

NO_STORE = [(b"cache-control", b"no-store")]


class ForwarderRoutes:
    """The routes tell topics of the caller's tenant only; loads are those of whole processes."""

    def __init__(self, fleet: FleetRepository, hints: HintRepository) -> None:
        self._fleet = fleet
        self._hints = hints

    def routes(self) -> list[Route]:
        return [Route(OPERATIONS["listForwarders"], self.listing)]

    async def listing(self, scope: Scope, receive: Receive, send: Send) -> None:
        """List the forwarders, from Postgres each time: no process knows all of them."""
        forwarders, hints = await self._fleet.live(), await self._hints.listing()
        tenant_id = tenant_of(scope)
        wanted = {key for key in named_in(forwarders, hints) if key[0] == tenant_id}
        names = await self._fleet.names(wanted)
        body = msgspec.json.encode(document(forwarders, hints, names))
        await respond(send, 200, body, headers=NO_STORE)
