"""Which exports have the history of a topic."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from importlib import import_module
from typing import Protocol

from packetboat.lake.errors import LakeNotInstalled
from packetboat.lake.read_message import ReadMessage
from packetboat.models.exports import Export, ExportTable

States = tuple[ExportTable | None, ExportTable | None]
"""Where the table is, and that of its rejects."""


class TableOfTopic(Protocol):
    """What tables.HistoryTable is, whose module needs what may not be installed."""

    @property
    def states(self) -> States:
        """Those it was opened with."""
        ...

    def rows(self, partition: int, lane: int, start: int, end: int) -> list[ReadMessage]:
        """Messages from `start` on, without a gap."""
        ...

    def first(
        self, partition: int, lane: int, *, start: int = 0, since: datetime | None = None
    ) -> int | None:
        """The first offset from `start` on, of what was published at `since` or later."""
        ...


def has_all(export: Export) -> bool:
    """Whether its table has all messages of its topics: not where some are filtered, and not where
    it is plain files, which may have a message twice."""
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
