"""Bounds the memory of publishes: bytes and messages are reserved before any is accepted.

Two limits: the process's (503: this forwarder is full, another may not be) and each tenant's share
of it (429: this tenant is ahead of the store). Both answers say when to retry.
"""

from __future__ import annotations

import asyncio
from typing import NoReturn

from edge.problem import Problem
from edge.shares import FULL, SHARE, Shares
from publish_forwarder.settings import PublishSettings

RETRY_AFTER_S = 1.0


class Share:
    """One tenant's part of the budget; each `reserve` has its `release` with the same numbers."""

    __slots__ = ("_budget", "_bytes", "_messages", "_tenant_id")

    def __init__(self, budget: Budget, tenant_id: bytes) -> None:
        self._budget = budget
        self._bytes = budget.bytes
        self._messages = budget.messages
        self._tenant_id = tenant_id

    @property
    def held_bytes(self) -> int:
        """The bytes that the tenant holds now."""
        return int(self._bytes.of(self._tenant_id))

    @property
    def held_messages(self) -> int:
        """The number of messages that the tenant holds now."""
        return int(self._messages.of(self._tenant_id))

    def reserve(self, size_bytes: int, messages: int) -> None:
        """Reserve memory, or raise a 503 or 429 Problem and reserve nothing.

        A tenant that holds nothing gets its first message whatever the limit is: a limit below the
        largest message must not refuse that message for ever.
        """
        who = self._tenant_id
        reason = self._bytes.refusal(who, size_bytes) or self._messages.refusal(who, messages)
        if reason is not None:
            if reason == FULL and self._bytes.held:
                self._budget.refuse_all()
            if reason == SHARE and self._bytes.of(who):
                self._budget.refuse(self)
        self._bytes.add(who, size_bytes)
        self._messages.add(who, messages)

    def release(self, size_bytes: int, messages: int) -> None:
        """Release reserved memory."""
        self._bytes.release(self._tenant_id, size_bytes)
        self._messages.release(self._tenant_id, messages)
        budget = self._budget
        if budget.idle is not None and not budget.messages.held:
            budget.idle.set()


class Budget:
    """The limits of a process, and the memory that all tenants hold."""

    def __init__(self, settings: PublishSettings) -> None:
        share = settings.tenant_share
        self.bytes = Shares(settings.max_in_flight_bytes, share)
        self.messages = Shares(settings.max_in_flight_messages, share)
        self.refusals = 0
        self.idle: asyncio.Event | None = None
        self._shares: dict[bytes, Share] = {}

    @property
    def held_bytes(self) -> int:
        """The bytes that all tenants hold."""
        return int(self.bytes.held)

    @property
    def held_messages(self) -> int:
        """The messages that all tenants hold."""
        return int(self.messages.held)

    def share(self, tenant_id: bytes) -> Share:
        """Return the share of a tenant; make it at the first use."""
        share = self._shares.get(tenant_id)
        if share is None:
            if len(self._shares) >= 10_000:
                self._forget_idle()
            share = self._shares[tenant_id] = Share(self, tenant_id)
        return share

    async def until_idle(self) -> None:
        """Wait until no accepted message is unanswered."""
        self.idle = asyncio.Event()
        if self.messages.held:
            await self.idle.wait()

    def refuse_all(self) -> NoReturn:
        self.refusals += 1
        raise Problem.of(
            "publish-overloaded",
            "This forwarder holds as many unanswered messages as it may; nothing of this request "
            "was accepted.",
            retry_after_s=RETRY_AFTER_S,
        )

    def refuse(self, share: Share) -> NoReturn:
        self.refusals += 1
        raise Problem.of(
            "too-many-in-flight",
            f"This tenant holds {share.held_messages} unanswered messages "
            f"({share.held_bytes} bytes); nothing of this request was accepted.",
            retry_after_s=RETRY_AFTER_S,
        )

    def _forget_idle(self) -> None:
        self._shares = {
            tenant_id: share for tenant_id, share in self._shares.items() if share.held_bytes
        }
