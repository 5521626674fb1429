"""Tells a tenant of changes of its endpoints: a message each, to `push.events_topic`.

The changes are in the audit, committed with each change. The owner of the first partition appends
the events of the last `LOOK_BACK_S` under names made of their rows' ids: an earlier owner may have
done the same, and the log has each once (`outbox`). An event that could not be appended is tried
again with every look, within the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import structlog

from edge.problem import Problem
from metadata.catalog import Catalog
from metadata.errors import MetadataError, NotFound
from metadata.subscriptions.push_endpoints import PushEndpointRepository
from metadata.tenancy.audit import AuditEntry
from metadata.types import Subscription
from outbox import Item, Outbox, TopicFull
from store_nodes.errors import QueueNotFound, QueueSealed, StoreError
from store_nodes.record_batch import Message

LOOK_BACK_S = 12 * 3600.0
"""Well within the time for which the log knows names."""
TYPE = "packetboat.endpoint."
_log = structlog.get_logger("packetboat.push")


class EndpointEvents:
    """Sends the events of one process, on one event loop."""

    def __init__(self, endpoints: PushEndpointRepository, catalog: Catalog, outbox: Outbox) -> None:
        self._endpoints = endpoints
        self._catalog = catalog
        self._outbox = outbox

    async def tell(self, subscription: Subscription, told: frozenset[bytes]) -> frozenset[bytes]:
        """Tell the events but for those ids; returns the ids of the events that are in the
        topic now.
        """
        name = None if subscription.push is None else subscription.push.events_topic
        if name is None:
            return told
        try:
            since = datetime.now(UTC) - timedelta(seconds=LOOK_BACK_S)
            found = await self._endpoints.transitions(subscription, since)
            fresh = [one for one in found if one.id not in told]
            if fresh:
                items = [Item(_message(subscription, one), _name(one)) for one in fresh]
                await self._append(subscription.tenant_id, name, items)
            return frozenset(one.id for one in found)
        except (MetadataError, NotFound, StoreError, TopicFull, Problem) as error:
            _log.warning(
                "events wait", subscription=subscription.name, topic=name, error=str(error)
            )
            return told

    async def _append(self, tenant_id: bytes, name: str, items: Sequence[Item]) -> None:
        try:
            await self._outbox.append(await self._catalog.topic(tenant_id, name), items)
        except (QueueNotFound, QueueSealed):
            fresh = await self._catalog.topic(tenant_id, name, refresh=True)
            await self._outbox.append(fresh, items)


def _name(entry: AuditEntry) -> bytes:
    return b"push event" + entry.id


def _message(subscription: Subscription, entry: AuditEntry) -> Message:
    event: dict[str, Any] = {
        "id": entry.id.hex(),
        "type": TYPE + entry.action.rpartition(".")[2],
        "subscription": subscription.name,
        "state": entry.detail.get("state"),
        "reason": entry.detail.get("reason"),
        "at": entry.at,
    }
    return Message(msgspec.json.encode(event), "application/json", key=subscription.name)
