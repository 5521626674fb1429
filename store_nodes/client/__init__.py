"""The store's client: finds leaders, pipelines, retries within its deadline, and says of every
call whether it was done, not done, or is unknown."""

from __future__ import annotations

from store_nodes.client.appender import Appender, Receipt
from store_nodes.client.leaders import LogClock
from store_nodes.client.reads import (
    Entry,
    FetchedEntries,
    Location,
    SnapshotImage,
    StagedEntry,
    StagedPage,
)
from store_nodes.client.store_client import StoreClient
from store_nodes.client.watch import Watch
from store_nodes.commands import Reconfigure, StageExtras
from store_nodes.errors import Known
from store_nodes.wire import Durability, NodeView, QueueInfo, QueueOffsets, StagedInfo

__all__ = [
    "Appender",
    "Durability",
    "Entry",
    "FetchedEntries",
    "Known",
    "Location",
    "LogClock",
    "NodeView",
    "QueueInfo",
    "QueueOffsets",
    "Receipt",
    "Reconfigure",
    "SnapshotImage",
    "StageExtras",
    "StagedEntry",
    "StagedInfo",
    "StagedPage",
    "StoreClient",
    "Watch",
]
