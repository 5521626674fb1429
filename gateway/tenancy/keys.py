"""API keys of a tenant. A key is in the one answer that makes it, and never again."""

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
from gateway.tenancy.key_bodies import spec_of, view
from gateway.topics.topics import respond_no_content
from metadata.tenancy.api_keys import ApiKey, ApiKeyRepository
from metadata.tenancy.credentials import Minted, new_api_key, new_key_id
from openapi import access


class KeyRoutes:
    def __init__(self, keys: ApiKeyRepository) -> None:
        self._keys = keys

    def routes(self) -> list[Route]:
        return [
            Route(access.OPERATIONS["createKey"], self.create),
            Route(access.OPERATIONS["listKeys"], self.page),
            Route(access.OPERATIONS["getKey"], self.get),
            Route(access.OPERATIONS["putKey"], self.put),
            Route(access.OPERATIONS["deleteKey"], self.delete),
            Route(access.OPERATIONS["rotateKey"], self.rotate),
        ]

    async def create(self, scope: Scope, receive: Receive, send: Send) -> None:
        """201 with the key."""
        body = await read_json(scope, receive, access.KeyBody)
        spec, key_id = spec_of(body), new_key_id()
        minted = new_api_key(key_id, utc_now())
        async with refusals("key", taken=spec.name):
            key = await self._keys.create(tenant_of(scope), spec, key_id, minted.secret)
        await _respond_made(send, key, minted)

    async def put(self, scope: Scope, receive: Receive, send: Send) -> None:
        """201 with the key when it was not there, 200 when it is now as the body says."""
        body = await read_json(scope, receive, access.KeyBody)
        name, tenant_id = path_param(scope, "name"), tenant_of(scope)
        spec, version = spec_of(body, name), if_match(header(scope, b"if-match"))
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
        key = await self._keys.get(tenant_of(scope), name_in_path(scope, "key"))
        await respond_one(send, 200, view(key), key.version)

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = Query(scope)
        page = await self._keys.page(
            tenant_of(scope),
            page_size=page_size_of(query),
            page_token=query.page_token(),
        )
        listing = access.KeyPage([view(one) for one in page.items], page.next_token)
        await respond_listing(send, listing)

    async def delete(self, scope: Scope, receive: Receive, send: Send) -> None:
        """It holds no more. 409 when it is the last owner, unless `force=true`."""
        async with refusals("key"):
            await self._keys.delete(
                tenant_of(scope),
                name_in_path(scope, "key"),
                if_version=if_match(header(scope, b"if-match")),
                force=Query(scope).flag("force"),
            )
        await respond_no_content(send)

    async def rotate(self, scope: Scope, receive: Receive, send: Send) -> None:
        """201 with another key of the same id, beside which the present one holds for a while."""
        body = await read_json(scope, receive, access.Rotation)
        name, tenant_id, now = name_in_path(scope, "key"), tenant_of(scope), utc_now()
        present = await self._keys.get(tenant_id, name)
        minted = new_api_key(present.key_id, now)
        async with refusals("key"):
            key = await self._keys.rotate(
                tenant_id,
                name,
                minted.secret,
                old_until(body, now),
                if_version=if_match(header(scope, b"if-match")),
            )
        await respond_one(
            send,
            201,
            extended(access.KeyMade, view(key), key=minted.text),
            key.version,
            secret=True,
        )


async def _respond_made(send: Send, key: ApiKey, minted: Minted) -> None:
    shown = extended(access.KeyMade, view(key), key=minted.text)
    await respond_one(send, 201, shown, key.version, location=("keys", key.name), secret=True)
