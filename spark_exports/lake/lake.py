"""A lake: a catalog and a warehouse, in which every tenant has a namespace."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import Self

import pyarrow as pa
from pyiceberg.exceptions import (
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import Table
from sqlalchemy.exc import IntegrityError

from spark_exports.lake.catalog import close_catalog, open_catalog, reachable
from spark_exports.lake.columns import grown, new_schema
from spark_exports.lake.errors import ConflictingColumn, LayoutDiffers, NotOurTable, TableGone
from spark_exports.lake.layout import Layout
from spark_exports.lake.storage import LakeFileIO, list_files, table_location
from spark_exports.lake.table import OWNER, LakeTable
from spark_exports.order import LakeSettings

_PROPERTIES = {
    # A conflict is judged here: PyIceberg would commit a second time the files that another attempt
    # has committed.
    "commit.retry.num-retries": "0",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "100",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "50",
    "write.metadata.metrics.column.data": "counts",
    "write.metadata.metrics.column.rescued": "counts",
    "write.metadata.metrics.column.traceparent": "counts",
    "write.parquet.compression-codec": "zstd",
}


class Lake:
    """A connection to a lake. Making it and all methods may raise CatalogUnavailable."""

    def __init__(self, settings: LakeSettings) -> None:
        self._settings = settings
        self._catalog = open_catalog(settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        close_catalog(self._catalog)

    def find(self, tenant: str, table: str, owner: str | None = None) -> LakeTable | None:
        """Return a table, or None if there is none. Raises NotOurTable."""
        try:
            with reachable():
                found = self._catalog.load_table((tenant, table))
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        return self._ours(found, owner or tenant)

    def open(
        self,
        tenant: str,
        table: str,
        columns: pa.Schema,
        layout: Layout,
        owner: str | None = None,
    ) -> LakeTable:
        """Return the table; make it if it is missing.

        `columns` are used only for a new table (`evolve` changes the columns of an existing one).
        `owner` names the owning export among those of a tenant.

        Raises NotOurTable, LayoutDiffers and ConflictingColumn.
        """
        found = self.find(tenant, table, owner)
        if found is None:
            found = self._create(tenant, table, columns, layout, owner or tenant)
        if not layout.is_of(found.iceberg.spec(), found.iceberg.schema()):
            raise LayoutDiffers(
                f"{tenant}.{table} is partitioned by {found.iceberg.spec().fields}, not as the"
                f" export says: {layout}"
            )
        return found

    def _create(
        self, tenant: str, table: str, columns: pa.Schema, layout: Layout, owner: str
    ) -> LakeTable:
        grown_columns, conflicts = grown(pa.schema([]), columns)
        if conflicts:
            raise ConflictingColumn(conflicts)
        schema = new_schema(grown_columns)
        with reachable():
            # Another attempt may make either at the same moment.
            with suppress(IntegrityError):
                self._catalog.create_namespace_if_not_exists((tenant,))
            with suppress(TableAlreadyExistsError):
                self._catalog.create_table(
                    (tenant, table),
                    schema,
                    location=self._new_location(tenant, table),
                    partition_spec=layout.spec(schema),
                    properties={**_PROPERTIES, OWNER: owner},
                )
        found = self.find(tenant, table, owner)
        if found is None:
            raise TableGone(f"{tenant}.{table} was dropped as soon as it was made")
        return found

    def _new_location(self, tenant: str, table: str) -> str:
        """Return a location without files, such as those of a dropped table or of another catalog.

        Removing orphans in this table may not touch those.
        """
        location = table_location(self._settings, tenant, table)
        file_io = LakeFileIO(dict(self._settings.storage))
        if any(list_files(file_io, location)):
            location += f"-{secrets.token_hex(4)}"
        return location

    def _ours(self, found: Table, owner: str) -> LakeTable:
        name = ".".join(found.name())
        theirs = found.properties.get(OWNER)
        if theirs is None:
            raise NotOurTable(f"{name} was not made by an export")
        if theirs != owner:
            raise NotOurTable(f"{name} is written by {theirs}, not by {owner}")
        return LakeTable(found)
