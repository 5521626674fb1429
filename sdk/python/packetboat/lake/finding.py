"""Finds the exports that have the history of a topic."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from importlib import import_module
from typing import Protocol

from packetboat.lake.errors import LakeNotInstalled
from packetboat.lake.read_message import ReadMessage
from packetboat.models.exports import Export, ExportTable

States = tuple[ExportTable | None, ExportTable | None]
"""The state of the table, and that of the table of its rejects."""


class TableOfTopic(Protocol):
    """The interface of tables.HistoryTable, whose module needs an extra that may be missing."""

    @property
    def states(self) -> States:
        """The states with which the tables were opened."""
        ...

    def rows(self, partition: int, lane: int, start: int, end: int) -> list[ReadMessage]:
        """Return messages from `start` on, without a gap."""
        ...

    def first(
        self, partition: int, lane: int, *, start: int = 0, since: datetime | None = None
    ) -> int | None:
        """Return the first offset from `start` on of a message published at `since` or later."""
        ...


def has_all(export: Export) -> bool:
    """Return whether the table of an export has each message of its topics exactly once.

    A filter leaves messages out, and plain files may have a message twice.
    """
    return (
        export.format == "iceberg"
        and export.filter is None
        and export.table_state is not None
        and export.table_state.metadata_location is not None
    )


def open_table(export: Export, topic: str, storage: Mapping[str, str] | None) -> TableOfTopic:
    """Raises LakeNotInstalled."""
    try:
        tables = import_module("packetboat.lake.tables")
    except ImportError as error:
        raise LakeNotInstalled(export.name) from error
    table: TableOfTopic = tables.HistoryTable(export, topic, dict(storage or {}))
    return table
