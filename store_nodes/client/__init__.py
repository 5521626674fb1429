"""The store's client: finds leaders, pipelines, retries within its deadline, and says of every
call whether it was done, not done, or is unknown."""

from __future__ import annotations

from store_nodes.client.appender import Appender, Receipt
from store_nodes.client.store_client import Entry, FetchedEntries, StoreClient
from store_nodes.client.watch import Watch
from store_nodes.wire import Durability, QueueInfo, QueueOffsets

__all__ = [
    "Appender",
    "Durability",
    "Entry",
    "FetchedEntries",
    "QueueInfo",
    "QueueOffsets",
    "Receipt",
    "StoreClient",
    "Watch",
]
