# Generated from openapi/: `make generate`. Do not edit.
"""Schemas that bodies of a topic must fit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from packetboat.aio.resources.pages import every
from packetboat.aio.sender import AsyncSender
from packetboat.calls import tenancy as calls
from packetboat.models import (
    Compatibility,
    Page,
    Schema,
    SchemaChecked,
    SchemaType,
    SchemaValidated,
    SchemaVersion,
)


class AsyncSchemas:
    """Schemas that bodies of a topic must fit."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def create(
        self,
        name: str,
        type: SchemaType,
        definition: Any,
        *,
        compatibility: Compatibility | None = None,
        timeout_s: float | None = None,
    ) -> Schema:
        """Create a schema. `definition` is JSON, or its text. A new version must be compatible:
        `backward`, unless `compatibility` is given. Raise Conflict where the name is taken, and
        InvalidRequest where the definition is none."""
        return await self._sender.send(
            calls.create_schema(name, type, definition, compatibility), timeout_s
        )

    async def get(self, name: str, *, timeout_s: float | None = None) -> Schema:
        """Return the schema with its latest version. Raise NotFound where there is none of this
        name."""
        return await self._sender.send(calls.get_schema(name), timeout_s)

    def list(
        self, *, page_size: int = 100, timeout_s: float | None = None
    ) -> AsyncIterator[Schema]:
        """Iterate over all of them, page by page."""
        return every(self._sender, lambda token: calls.list_schemas(page_size, token), timeout_s)

    async def page(
        self, *, page_size: int = 100, page_token: str | None = None, timeout_s: float | None = None
    ) -> Page[Schema]:
        """Return one page; `page_token` is that of the page before."""
        return await self._sender.send(calls.list_schemas(page_size, page_token), timeout_s)

    async def update(
        self,
        name: str,
        *,
        compatibility: Compatibility,
        if_match: str | None = None,
        timeout_s: float | None = None,
    ) -> Schema:
        """Change the rule that new versions have to keep."""
        return await self._sender.send(
            calls.change_schema(name, compatibility, if_match), timeout_s
        )

    async def delete(
        self, name: str, *, if_match: str | None = None, timeout_s: float | None = None
    ) -> None:
        """Delete the schema with all its versions. Raise Conflict while a topic uses it."""
        await self._sender.send(calls.delete_schema(name, if_match), timeout_s)

    async def versions(
        self, name: str, *, timeout_s: float | None = None
    ) -> tuple[SchemaVersion, ...]:
        """Return its versions, without definitions."""
        return await self._sender.send(calls.list_schema_versions(name), timeout_s)

    async def add_version(
        self, name: str, definition: Any, *, timeout_s: float | None = None
    ) -> int:
        """Add a version and return its number; a definition that is the latest one already keeps
        its number. Raise InvalidRequest, whose `errors` name what would break."""
        return await self._sender.send(calls.add_schema_version(name, definition), timeout_s)

    async def version(
        self, name: str, number: int, *, timeout_s: float | None = None
    ) -> SchemaVersion:
        """Return one version. Raise NotFound where there is none of this name."""
        return await self._sender.send(calls.get_schema_version(name, number), timeout_s)

    async def check(
        self, name: str, definition: Any, *, timeout_s: float | None = None
    ) -> SchemaChecked:
        """Ask whether a definition could be the next version."""
        return await self._sender.send(calls.check_schema(name, definition), timeout_s)

    async def validate(
        self,
        name: str,
        data: Any,
        *,
        content_type: str | None = None,
        number: int | None = None,
        timeout_s: float | None = None,
    ) -> SchemaValidated:
        """Ask whether a body, JSON or bytes, fits the latest version, or the one that `number`
        names."""
        return await self._sender.send(
            calls.validate_body(name, data, content_type, number), timeout_s
        )
