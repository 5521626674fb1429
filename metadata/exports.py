"""Exports: what of a topic goes to which table, and how far that is.

A new export pins the history it begins with, in the transaction that makes it; its deletion drops
what it pins, and its runs with it. The number of its last run stays behind, by its table: a table
tells runs apart by their numbers, so an export that is made for a table again goes on above them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from metadata.database import Database
from metadata.errors import MetadataError
from metadata.export_types import Export, ExportSpec, LanePosition
from metadata.types import Page, Topic

MAX_EXPORTS = 1_000
"""Of one tenant."""


class TooManyExports(MetadataError):
    """The tenant has as many as it may."""

    code = "too_many_exports"


class ImmutableField(MetadataError):
    """What an export is made with, and another export is needed to have otherwise."""

    code = "immutable_field"

    def __init__(self, field: str) -> None:
        super().__init__(f"{field} cannot change")
        self.field = field


class TableTaken(MetadataError):
    """Another export of the tenant writes that table of the lake, or its rejects."""

    code = "table_taken"

    def __init__(self, table: str, export: str) -> None:
        super().__init__(f"the table {table!r} is the export {export!r}'s")
        self.table = table
        self.export = export


class ExportRepository:
    """Names are unique per tenant, and so are tables per tenant and lake."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self, tenant_id: bytes, spec: ExportSpec, starts: Sequence[LanePosition]
    ) -> Export:
        """Beginning at `starts` in the lanes there are now, no lower than what is trimmed; in lanes
        that come later it begins with the first message.

        Conflict when the name is taken (`existing` is who has it); TableTaken; TooManyExports;
        NotFound of a topic in `starts` that is gone.
        """
        raise NotImplementedError

    async def get(self, tenant_id: bytes, name: str) -> Export:
        """NotFound."""
        raise NotImplementedError

    async def page(
        self,
        tenant_id: bytes,
        *,
        topic: str | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Page[Export]:
        """By name, of `topic` those that take it; BadPageToken."""
        raise NotImplementedError

    async def update(
        self,
        tenant_id: bytes,
        name: str,
        change: Callable[[Export], ExportSpec],
        *,
        if_version: int | None = None,
    ) -> Export:
        """What `change` makes of it, under a lock. NotFound; Conflict when `if_version` is another;
        ImmutableField."""
        raise NotImplementedError

    async def delete(self, tenant_id: bytes, name: str, *, if_version: int | None = None) -> None:
        """With its runs, its pins and its positions; what it wrote stays. Who runs one of its runs
        hears that its lease is lost. NotFound; Conflict when `if_version` is another."""
        raise NotImplementedError

    async def topics(self, tenant_id: bytes, pattern: str) -> tuple[Topic, ...]:
        """The active topics that an export of `pattern` takes, by name, with their partitions."""
        raise NotImplementedError
