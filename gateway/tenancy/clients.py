"""OAuth2 clients of a tenant. A secret is in the one answer that makes it, and never again."""

from __future__ import annotations

from edge.asgi import Receive, Route, Scope, Send, header, path_param, tenant_of
from edge.problem import not_found
from gateway.http.decoding import Query, if_match, read_json
from gateway.names import name_errors
from gateway.tenancy.answers import (
    Rotation,
    page_size_of,
    refusals,
    respond_one,
    respond_page,
    update_or_create,
    utc_now,
)
from gateway.tenancy.client_bodies import ClientBody, view
from gateway.topics.topics import respond_no_content
from metadata.tenancy.clients import Client, ClientRepository
from metadata.tenancy.credentials import Minted, new_client_id, new_client_secret
from openapi.access import OPERATIONS


class ClientRoutes:
    def __init__(self, clients: ClientRepository) -> None:
        self._clients = clients

    def routes(self) -> list[Route]:
        return [
            Route(OPERATIONS["createClient"], self.create),
            Route(OPERATIONS["listClients"], self.page),
            Route(OPERATIONS["getClient"], self.get),
            Route(OPERATIONS["putClient"], self.put),
            Route(OPERATIONS["deleteClient"], self.delete),
            Route(OPERATIONS["addClientSecret"], self.add_secret),
            Route(OPERATIONS["removeClientSecret"], self.remove_secret),
            Route(OPERATIONS["revokeClientTokens"], self.revoke_tokens),
        ]

    async def create(self, scope: Scope, receive: Receive, send: Send) -> None:
        """201 with its first secret."""
        body = await read_json(scope, receive, ClientBody)
        spec = body.spec()
        minted = new_client_secret(utc_now())
        async with refusals("client", taken=spec.name):
            client = await self._clients.create(
                tenant_of(scope), spec, new_client_id(), minted.secret
            )
        await _respond_made(send, client, minted)

    async def put(self, scope: Scope, receive: Receive, send: Send) -> None:
        """201 with its first secret when it was not there, 200 when it is now as the body says."""
        body = await read_json(scope, receive, ClientBody)
        name = path_param(scope, "name")
        spec, version = body.spec(name), if_match(header(scope, b"if-match"))
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
        client = await self._clients.get(tenant_of(scope), _name(scope))
        await respond_one(send, 200, view(client), client.version)

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = Query(scope)
        page = await self._clients.page(
            tenant_of(scope),
            page_size=page_size_of(query),
            page_token=query.text("page_token") or None,
        )
        await respond_page(send, "clients", [view(one) for one in page.items], page.next_token)

    async def delete(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Its tokens hold no more. 409 when it is the last owner, unless `force=true`."""
        version = if_match(header(scope, b"if-match"))
        async with refusals("client"):
            await self._clients.delete(
                tenant_of(scope),
                _name(scope),
                if_version=version,
                force=Query(scope).flag("force"),
            )
        await respond_no_content(send)

    async def add_secret(self, scope: Scope, receive: Receive, send: Send) -> None:
        """201 with a new secret, beside which the present one holds for a while."""
        body = await read_json(scope, receive, Rotation)
        now = utc_now()
        minted = new_client_secret(now)
        async with refusals("client"):
            client = await self._clients.add_secret(
                tenant_of(scope),
                _name(scope),
                minted.secret,
                body.old_until(now),
                if_version=if_match(header(scope, b"if-match")),
            )
        shown = view(client) | {"client_secret": minted.text}
        await respond_one(send, 201, shown, client.version, secret=True)

    async def remove_secret(self, scope: Scope, receive: Receive, send: Send) -> None:
        """At once, for tokens to come; those that it got hold until they end or are revoked."""
        async with refusals("client"):
            await self._clients.remove_secret(
                tenant_of(scope),
                _name(scope),
                path_param(scope, "prefix"),
                if_version=if_match(header(scope, b"if-match")),
                force=Query(scope).flag("force"),
            )
        await respond_no_content(send)

    async def revoke_tokens(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Every access token it was given until now is refused from now on."""
        client = await self._clients.revoke_tokens(tenant_of(scope), _name(scope))
        await respond_one(send, 200, view(client), client.version)


def _name(scope: Scope) -> str:
    name = path_param(scope, "name")
    if name_errors(name):
        raise not_found("client", name)
    return name


async def _respond_made(send: Send, client: Client, minted: Minted) -> None:
    shown = view(client) | {"client_secret": minted.text}
    location = ("clients", client.name)
    await respond_one(send, 201, shown, client.version, location=location, secret=True)
