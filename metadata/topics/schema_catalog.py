"""Schemas as publishing uses them: cached, kept fresh by the change feed.

A cached schema stays usable while Postgres is down, as topics do (catalog.py). A miss reads
Postgres; *absent* is never cached.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from metadata.catalog import MAX_STALE_S
from metadata.errors import NotFound
from metadata.feed import ChangeFeed
from metadata.topics.schemas import Schema, SchemaRepository, SchemaVersion
from metadata.types import Change, ChangeKind

MAX_SCHEMAS = 1000
MAX_VERSIONS = 1000
Key = tuple[bytes, str]


class SchemaCatalog:
    """Bounded; the least recently used leave first."""

    def __init__(
        self,
        schemas: SchemaRepository,
        feed: ChangeFeed,
        *,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._schemas = schemas
        self._feed = feed
        self._monotonic_s = monotonic_s
        self._latest: OrderedDict[Key, Schema] = OrderedDict()
        self._versions: OrderedDict[tuple[bytes, str, int], SchemaVersion] = OrderedDict()
        self._runs_applied = 0
        feed.add_listener(self._apply)

    def cached(self, tenant_id: bytes, name: str) -> Schema | None:
        """Return a cached schema without a coroutine, for the hot path; None says call `get`."""
        schema = self._latest.get((tenant_id, name))
        if schema is None or self._monotonic_s() - self._feed.fresh_at_s() > MAX_STALE_S:
            return None
        self._latest.move_to_end((tenant_id, name))
        return schema

    async def get(self, tenant_id: bytes, name: str) -> Schema:
        """Return a schema with its latest version. Raises NotFound, MetadataUnavailable."""
        cached = self.cached(tenant_id, name)
        if cached is not None:
            return cached
        before = self._runs_applied
        schema = await self._schemas.get(tenant_id, name)
        if before == self._runs_applied:
            self._keep(schema)
        return schema

    async def version(self, tenant_id: bytes, name: str, number: int) -> SchemaVersion:
        """Return any version. Raises NotFound, MetadataUnavailable."""
        key = (tenant_id, name, number)
        cached = self._versions.get(key)
        if cached is not None:
            self._versions.move_to_end(key)
            return cached
        before = self._runs_applied
        version = await self._schemas.version(tenant_id, name, number)
        if before == self._runs_applied:
            self._versions[key] = version
            while len(self._versions) > MAX_VERSIONS:
                self._versions.popitem(last=False)
        return version

    def _keep(self, schema: Schema) -> None:
        key = (schema.tenant_id, schema.name)
        self._latest[key] = schema
        self._latest.move_to_end(key)
        while len(self._latest) > MAX_SCHEMAS:
            self._latest.popitem(last=False)

    async def _apply(self, changes: Sequence[Change]) -> None:
        """Reads again what is cached of the changed; raises when it can't, and is called again."""
        self._runs_applied += 1
        if any(change.kind is ChangeKind.RESET for change in changes):
            self._latest.clear()
            self._versions.clear()
            return
        changed = {(c.tenant_id, c.name) for c in changes if c.kind is ChangeKind.SCHEMA}
        for key in changed:
            if key not in self._latest:
                self._forget_versions(key)  # it may have been deleted, and made again
                continue
            try:
                schema = await self._schemas.get(*key)
            except NotFound:
                del self._latest[key]
                self._forget_versions(key)
            else:
                before = self._latest.get(key)
                if before is not None and before.created_at != schema.created_at:
                    self._forget_versions(key)
                self._keep(schema)

    def _forget_versions(self, key: Key) -> None:
        for version in [one for one in self._versions if one[:2] == key]:
            del self._versions[version]
