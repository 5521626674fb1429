"""API keys of a tenant. A key is in the one answer that makes it, and never again."""

from __future__ import annotations

from edge.asgi import Route
from gateway.resources import Call, Resource, Shown
from gateway.tenancy.answers import exists_already, extended, old_until, utc_now
from gateway.tenancy.key_bodies import spec_of, view
from metadata.tenancy.api_keys import ApiKey, ApiKeyRepository
from metadata.tenancy.credentials import Minted, new_api_key, new_key_id
from openapi import access


class KeyRoutes:
    def __init__(self, keys: ApiKeyRepository) -> None:
        self._keys = keys

    def routes(self) -> list[Route]:
        table = access.OPERATIONS
        keys = Resource("key", table["getKey"], _shown)
        taken = exists_already("key")
        return [
            keys.creates(table["createKey"], access.KeyBody, self._create, taken),
            keys.lists(table["listKeys"], self._keys.page),
            keys.gets(table["getKey"], self._keys.get),
            keys.puts(table["putKey"], access.KeyBody, self._update, self._create),
            keys.deletes(table["deleteKey"], self._delete),
            keys.changes(table["rotateKey"], access.Rotation, self._rotate),
        ]

    async def _create(self, call: Call, body: access.KeyBody) -> Shown:
        """Return the key with its text."""
        spec, key_id = spec_of(body, call.name), new_key_id()
        minted = new_api_key(key_id, utc_now())
        return _made(await self._keys.create(call.tenant_id, spec, key_id, minted.secret), minted)

    async def _update(self, call: Call, body: access.KeyBody) -> ApiKey:
        spec = spec_of(body, call.name)
        return await self._keys.update(
            call.tenant_id, call.name, spec, if_version=call.if_version, force=call.force
        )

    async def _delete(self, call: Call) -> None:
        """End a key. Raise LastOwner if it is the last owner, unless `force=true`."""
        await self._keys.delete(
            call.tenant_id, call.name, if_version=call.if_version, force=call.force
        )

    async def _rotate(self, call: Call, body: access.Rotation) -> Shown:
        """Return another key of the same id, beside which the present one holds for a while."""
        now = utc_now()
        present = await self._keys.get(call.tenant_id, call.name)
        minted, ends = new_api_key(present.key_id, now), old_until(body, now)
        key = await self._keys.rotate(
            call.tenant_id, call.name, minted.secret, ends, if_version=call.if_version
        )
        return _made(key, minted)


def _shown(key: ApiKey) -> Shown:
    return Shown(view(key), key.name, key.version)


def _made(key: ApiKey, minted: Minted) -> Shown:
    shown = extended(access.KeyMade, view(key), key=minted.text)
    return Shown(shown, key.name, key.version, secret=True)
