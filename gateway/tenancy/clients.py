"""OAuth2 clients of a tenant. A secret is in the one answer that makes it, and never again."""

from __future__ import annotations

from edge.asgi import Receive, Route, Scope, Send, header, path_param, tenant_of
from gateway.http.decoding import Query, if_match, read_json
from gateway.tenancy.answers import (
    extended,
    name_in_path,
    old_until,
    page_size_of,
    refusals,
    respond_listing,
    respond_one,
    update_or_create,
    utc_now,
)
from gateway.tenancy.client_bodies import spec_of, view
from gateway.topics.topics import respond_no_content
from metadata.tenancy.clients import Client, ClientRepository
from metadata.tenancy.credentials import Minted, new_client_id, new_client_secret
from openapi import access


class ClientRoutes:
    def __init__(self, clients: ClientRepository) -> None:
        self._clients = clients

    def routes(self) -> list[Route]:
        return [
            Route(access.OPERATIONS["createClient"], self.create),
            Route(access.OPERATIONS["listClients"], self.page),
            Route(access.OPERATIONS["getClient"], self.get),
            Route(access.OPERATIONS["putClient"], self.put),
            Route(access.OPERATIONS["deleteClient"], self.delete),
            Route(access.OPERATIONS["addClientSecret"], self.add_secret),
            Route(access.OPERATIONS["removeClientSecret"], self.remove_secret),
            Route(access.OPERATIONS["revokeClientTokens"], self.revoke_tokens),
        ]

    async def create(self, scope: Scope, receive: Receive, send: Send) -> None:
        """201 with its first secret."""
        body = await read_json(scope, receive, access.ClientBody)
        spec = spec_of(body)
        minted = new_client_secret(utc_now())
        async with refusals("client", taken=spec.name):
            client = await self._clients.create(
                tenant_of(scope), spec, new_client_id(), minted.secret
            )
        await _respond_made(send, client, minted)

    async def put(self, scope: Scope, receive: Receive, send: Send) -> None:
        """201 with its first secret when it was not there, 200 when it is now as the body says."""
        body = await read_json(scope, receive, access.ClientBody)
        name = path_param(scope, "name")
        spec, version = spec_of(body, name), if_match(header(scope, b"if-match"))
        force, tenant_id = Query(scope).flag("force"), tenant_of(scope)
        minted = new_client_secret(utc_now())
        client, made = await update_or_create(
            "client",
            version,
            lambda: self._clients.update(tenant_id, name, spec, if_version=version, force=force),
            lambda: self._clients.create(tenant_id, spec, new_client_id(), minted.secret),
        )
        if made:
            await _respond_made(send, client, minted)
        else:
            await respond_one(send, 200, view(client), client.version)

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = await self._clients.get(tenant_of(scope), name_in_path(scope, "client"))
        await respond_one(send, 200, view(client), client.version)

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = Query(scope)
        page = await self._clients.page(
            tenant_of(scope),
            page_size=page_size_of(query),
            page_token=query.page_token(),
        )
        listing = access.ClientPage([view(one) for one in page.items], page.next_token)
        await respond_listing(send, listing)

    async def delete(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Its tokens hold no more. 409 when it is the last owner, unless `force=true`."""
        version = if_match(header(scope, b"if-match"))
        async with refusals("client"):
            await self._clients.delete(
                tenant_of(scope),
                name_in_path(scope, "client"),
                if_version=version,
                force=Query(scope).flag("force"),
            )
        await respond_no_content(send)

    async def add_secret(self, scope: Scope, receive: Receive, send: Send) -> None:
        """201 with a new secret, beside which the present one holds for a while."""
        body = await read_json(scope, receive, access.Rotation)
        now = utc_now()
        minted = new_client_secret(now)
        async with refusals("client"):
            client = await self._clients.add_secret(
                tenant_of(scope),
                name_in_path(scope, "client"),
                minted.secret,
                old_until(body, now),
                if_version=if_match(header(scope, b"if-match")),
            )
        shown = extended(access.ClientMade, view(client), client_secret=minted.text)
        await respond_one(send, 201, shown, client.version, secret=True)

    async def remove_secret(self, scope: Scope, receive: Receive, send: Send) -> None:
        """At once, for tokens to come; those that it got hold until they end or are revoked."""
        async with refusals("client"):
            await self._clients.remove_secret(
                tenant_of(scope),
                name_in_path(scope, "client"),
                path_param(scope, "prefix"),
                if_version=if_match(header(scope, b"if-match")),
                force=Query(scope).flag("force"),
            )
        await respond_no_content(send)

    async def revoke_tokens(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Every access token it was given until now is refused from now on."""
        client = await self._clients.revoke_tokens(tenant_of(scope), name_in_path(scope, "client"))
        await respond_one(send, 200, view(client), client.version)


async def _respond_made(send: Send, client: Client, minted: Minted) -> None:
    shown = extended(access.ClientMade, view(client), client_secret=minted.text)
    location = ("clients", client.name)
    await respond_one(send, 201, shown, client.version, location=location, secret=True)
