"""A single Iceberg commit: properties and files change together, bound to the judged snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table, Transaction
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _OverwriteFiles

from spark_exports.lake.catalog import forget_connections, reachable
from spark_exports.lake.errors import CatalogUnavailable
from spark_exports.lake.written import WrittenFile


class Change(msgspec.Struct, frozen=True):
    """The changes of a commit; `replace` says that the rows stay the same, `overwrite` that they do
    not.

    `summary` is for people who look at snapshots.
    """

    kind: Literal["append", "overwrite", "replace"]
    added: Sequence[WrittenFile]
    removed: Sequence[DataFile]
    properties: Mapping[str, str]
    summary: Mapping[str, str]


class NotDone(Exception):
    """The commit was refused, or its outcome is unknown: the table has to be loaded again."""


def put(table: Table, change: Change) -> None:
    """Commit a change, once; it is durable when this returns. Raises NotDone."""
    try:
        with reachable():
            transaction = table.transaction()
            transaction.set_properties(dict(change.properties))
            if change.kind == "append":
                _append(transaction, change)
            else:
                _exchange(table, transaction, change)
            transaction.commit_transaction()
    except (CommitFailedException, ValidationException, CatalogUnavailable, OSError) as error:
        forget_connections(table.catalog)
        raise NotDone(str(error)) from error


def _append(transaction: Transaction, change: Change) -> None:
    with transaction.update_snapshot(dict(change.summary)).merge_append() as files:
        for file in change.added:
            files.append_data_file(file.data_file())


def _exchange(table: Table, transaction: Transaction, change: Change) -> None:
    kind = _Compaction if change.kind == "replace" else _OverwriteFiles
    with kind(
        operation=Operation.OVERWRITE,
        transaction=transaction,
        io=table.io,
        snapshot_properties=dict(change.summary),
    ) as files:
        if table.spec().is_unpartitioned():
            # Without partitions, PyIceberg does not find the manifests of the removed files.
            files.delete_by_predicate(AlwaysTrue())
        for removed in change.removed:
            files.delete_data_file(removed)
        for added in change.added:
            files.append_data_file(added.data_file())


class _Compaction(_OverwriteFiles):
    """A snapshot of the kind `replace`, which processes that follow a table's snapshots skip.

    PyIceberg writes none of its own, but its summaries are those of an overwrite.
    """

    def _summary(self, snapshot_properties: dict[str, str] = {}) -> Summary:  # noqa: B006
        summary = super()._summary(snapshot_properties)
        return Summary(Operation.REPLACE, **summary.additional_properties)
