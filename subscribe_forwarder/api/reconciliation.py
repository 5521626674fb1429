"""The check that every message of a subscription is accounted for (P9), from Postgres alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from edge.asgi import Receive, Route, Scope, Send, path_param, respond, tenant_of
from metadata.delivery.cursor_balance import CursorBalance
from openapi import subscriptions as contract
from openapi.subscriptions import OPERATIONS
from subscribe_forwarder.forwarder import SubscribeForwarder

NO_STORE = [(b"cache-control", b"no-store")]


class Reconciliation:
    def __init__(self, forwarder: SubscribeForwarder) -> None:
        self._forwarder = forwarder

    def routes(self) -> list[Route]:
        return [Route(OPERATIONS["getReconciliation"], self.get)]

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the terms of each cursor, and what is missing; needs no ownership."""
        forwarder = self._forwarder
        tenant_id = tenant_of(scope)
        subscription = await forwarder.catalog.subscription(tenant_id, path_param(scope, "name"))
        balances = await forwarder.cursors.balances(tenant_id, subscription.uid)
        body = msgspec.json.encode(reconciliation(balances, datetime.now(UTC)))
        await respond(send, 200, body, headers=NO_STORE)


def reconciliation(
    balances: Sequence[CursorBalance], checked_at: datetime
) -> contract.Reconciliation:
    """Return the terms of all cursors, and whether they are balanced."""
    return contract.Reconciliation(
        balanced=all(each.difference == 0 for each in balances),
        partitions=[_terms(each, checked_at) for each in balances],
    )


def _terms(balance: CursorBalance, checked_at: datetime) -> contract.CursorBooks:
    cursor = balance.cursor
    counters = cursor.counters
    return contract.CursorBooks(
        partition=cursor.key.partition,
        lane=cursor.key.lane,
        generation=cursor.generation,
        start=cursor.start,
        floor=cursor.floor,
        read_to=cursor.read_to,
        acked=counters.acked,
        filtered=counters.filtered,
        skipped=counters.skipped,
        expired=counters.expired,
        dead_lettered=counters.dead_lettered,
        exceptions=cursor.exceptions,
        open_deliveries=balance.open_deliveries,
        pending=cursor.pending(),
        difference=balance.difference,
        checked_at=checked_at,
    )
