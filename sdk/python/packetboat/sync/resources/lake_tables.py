# Generated from aio/resources/lake_tables.py: `make generate`. Do not edit.
"""The tables that have the history of a topic, as exports show them."""

from __future__ import annotations

from packetboat.calls import exports as calls
from packetboat.errors import NotFound
from packetboat.lake.finding import TableOfTopic, has_all, open_table
from packetboat.lake.request import ReadRequest
from packetboat.sync.resources.pages import every
from packetboat.sync.sender import Sender
from packetboat.sync.waiting import apart


class LakeTables:
    """Asked for first when the log has not enough; then kept until they are asked for anew."""

    def __init__(self, sender: Sender, request: ReadRequest) -> None:
        self._sender = sender
        self._request = request
        self._known: tuple[TableOfTopic, ...] | None = None

    def all(self, *, anew: bool = False) -> tuple[TableOfTopic, ...]:
        """Return the tables of exports that take all messages of the topic.

        With `anew` the tables are read again. Raises LakeNotInstalled.
        """
        if self._known is None or anew:
            self._known = self._found()
        return self._known

    def _found(self) -> tuple[TableOfTopic, ...]:
        topic, timeout_s = self._request.topic, self._request.timeout_s
        pages = every(self._sender, lambda token: calls.list_exports(topic, 100, token), timeout_s)
        names = [export.name for export in pages if has_all(export)]
        tables = [self._opened(name) for name in names]
        return tuple(table for table in tables if table is not None)

    def _opened(self, name: str) -> TableOfTopic | None:
        """A listing does not say how far lanes are, and so not which topic of that name it is."""
        try:
            export = self._sender.send(calls.get_export(name), self._request.timeout_s)
        except NotFound:
            return None
        states = export.table_state, export.rejects_state
        kept = next((table for table in self._known or () if table.states == states), None)
        if kept is not None:
            return kept
        return apart(open_table, export, self._request.topic, self._request.storage)
