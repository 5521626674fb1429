"""API keys of a tenant. A key is in the one answer that makes it, and never again."""

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
from gateway.tenancy.key_bodies import KeyBody, view
from gateway.topics.topics import respond_no_content
from metadata.tenancy.api_keys import ApiKey, ApiKeyRepository
from metadata.tenancy.credentials import Minted, new_api_key, new_key_id
from openapi.access import OPERATIONS


class KeyRoutes:
    def __init__(self, keys: ApiKeyRepository) -> None:
        self._keys = keys

    def routes(self) -> list[Route]:
        return [
            Route(OPERATIONS["createKey"], self.create),
            Route(OPERATIONS["listKeys"], self.page),
            Route(OPERATIONS["getKey"], self.get),
            Route(OPERATIONS["putKey"], self.put),
            Route(OPERATIONS["deleteKey"], self.delete),
            Route(OPERATIONS["rotateKey"], self.rotate),
        ]

    async def create(self, scope: Scope, receive: Receive, send: Send) -> None:
        """201 with the key."""
        body = await read_json(scope, receive, KeyBody)
        spec, key_id = body.spec(), new_key_id()
        minted = new_api_key(key_id, utc_now())
        async with refusals("key", taken=spec.name):
            key = await self._keys.create(tenant_of(scope), spec, key_id, minted.secret)
        await _respond_made(send, key, minted)

    async def put(self, scope: Scope, receive: Receive, send: Send) -> None:
        """201 with the key when it was not there, 200 when it is now as the body says."""
        body = await read_json(scope, receive, KeyBody)
        name, tenant_id = path_param(scope, "name"), tenant_of(scope)
        spec, version = body.spec(name), if_match(header(scope, b"if-match"))
        force, key_id = Query(scope).flag("force"), new_key_id()
        minted = new_api_key(key_id, utc_now())
        key, made = await update_or_create(
            "key",
            version,
            lambda: self._keys.update(tenant_id, name, spec, if_version=version, force=force),
            lambda: self._keys.create(tenant_id, spec, key_id, minted.secret),
        )
        if made:
            await _respond_made(send, key, minted)
        else:
            await respond_one(send, 200, view(key), key.version)

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = await self._keys.get(tenant_of(scope), _name(scope))
        await respond_one(send, 200, view(key), key.version)

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = Query(scope)
        page = await self._keys.page(
            tenant_of(scope),
            page_size=page_size_of(query),
            page_token=query.text("page_token") or None,
        )
        await respond_page(send, "keys", [view(one) for one in page.items], page.next_token)

    async def delete(self, scope: Scope, receive: Receive, send: Send) -> None:
        """It holds no more. 409 when it is the last owner, unless `force=true`."""
        async with refusals("key"):
            await self._keys.delete(
                tenant_of(scope),
                _name(scope),
                if_version=if_match(header(scope, b"if-match")),
                force=Query(scope).flag("force"),
            )
        await respond_no_content(send)

    async def rotate(self, scope: Scope, receive: Receive, send: Send) -> None:
        """201 with another key of the same id, beside which the present one holds for a while."""
        body = await read_json(scope, receive, Rotation)
        name, tenant_id, now = _name(scope), tenant_of(scope), utc_now()
        present = await self._keys.get(tenant_id, name)
        minted = new_api_key(present.key_id, now)
        async with refusals("key"):
            key = await self._keys.rotate(
                tenant_id,
                name,
                minted.secret,
                body.old_until(now),
                if_version=if_match(header(scope, b"if-match")),
            )
        await respond_one(send, 201, view(key) | {"key": minted.text}, key.version, secret=True)


def _name(scope: Scope) -> str:
    name = path_param(scope, "name")
    if name_errors(name):
        raise not_found("key", name)
    return name


async def _respond_made(send: Send, key: ApiKey, minted: Minted) -> None:
    shown = view(key) | {"key": minted.text}
    await respond_one(send, 201, shown, key.version, location=("keys", key.name), secret=True)
