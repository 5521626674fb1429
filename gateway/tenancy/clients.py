"""OAuth2 clients of a tenant. A secret is in the one answer that makes it, and never again."""

from __future__ import annotations

from edge.asgi import Route
from gateway.resources import Call, Resource, Shown
from gateway.tenancy.answers import exists_already, extended, old_until, utc_now
from gateway.tenancy.client_bodies import spec_of, view
from metadata.tenancy.clients import Client, ClientRepository
from metadata.tenancy.credentials import Minted, new_client_id, new_client_secret
from openapi import access


class ClientRoutes:
    def __init__(self, clients: ClientRepository) -> None:
        self._clients = clients

    def routes(self) -> list[Route]:
        table = access.OPERATIONS
        clients = Resource("client", table["getClient"], _shown)
        taken = exists_already("client")
        return [
            clients.creates(table["createClient"], access.ClientBody, self._create, taken),
            clients.lists(table["listClients"], self._clients.page),
            clients.gets(table["getClient"], self._clients.get),
            clients.puts(table["putClient"], access.ClientBody, self._update, self._create),
            clients.deletes(table["deleteClient"], self._delete),
            clients.changes(table["addClientSecret"], access.Rotation, self._add_secret),
            clients.deletes(table["removeClientSecret"], self._remove_secret),
            clients.shows(table["revokeClientTokens"], self._revoke_tokens),
        ]

    async def _create(self, call: Call, body: access.ClientBody) -> Shown:
        """Return the client with its first secret."""
        spec, minted = spec_of(body, call.name), new_client_secret(utc_now())
        client = await self._clients.create(call.tenant_id, spec, new_client_id(), minted.secret)
        return _made(client, minted)

    async def _update(self, call: Call, body: access.ClientBody) -> Client:
        spec = spec_of(body, call.name)
        return await self._clients.update(
            call.tenant_id, call.name, spec, if_version=call.if_version, force=call.force
        )

    async def _delete(self, call: Call) -> None:
        """End a client and its tokens. Raise LastOwner if it is the last owner, unless
        `force=true`."""
        await self._clients.delete(
            call.tenant_id, call.name, if_version=call.if_version, force=call.force
        )

    async def _add_secret(self, call: Call, body: access.Rotation) -> Shown:
        """Return the client with a new secret, beside which the present one holds for a while."""
        now = utc_now()
        minted, ends = new_client_secret(now), old_until(body, now)
        client = await self._clients.add_secret(
            call.tenant_id, call.name, minted.secret, ends, if_version=call.if_version
        )
        return _made(client, minted)

    async def _remove_secret(self, call: Call) -> None:
        """Refuse a secret from now on; tokens that it got hold until they end or are revoked."""
        await self._clients.remove_secret(
            call.tenant_id,
            call.name,
            call.path("prefix"),
            if_version=call.if_version,
            force=call.force,
        )

    async def _revoke_tokens(self, call: Call) -> Client:
        """Refuse every access token that the client was given until now."""
        return await self._clients.revoke_tokens(call.tenant_id, call.name)


def _shown(client: Client) -> Shown:
    return Shown(view(client), client.name, client.version)


def _made(client: Client, minted: Minted) -> Shown:
    shown = extended(access.ClientMade, view(client), client_secret=minted.text)
    return Shown(shown, client.name, client.version, secret=True)
