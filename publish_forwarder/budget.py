"""Bounded memory: bytes and messages are reserved before anything is accepted.

Two limits: the process's (503: this forwarder is full, another may not be) and each tenant's
share of it (429: this tenant is ahead of the store). Both say when to come back.
"""

from __future__ import annotations

import asyncio
from typing import NoReturn

from edge.problem import Problem
from publish_forwarder.settings import PublishSettings

RETRY_AFTER_S = 1.0


class Share:
    """What one tenant holds of the budget; each `reserve` has its `release`, same numbers."""

    __slots__ = ("_budget", "held_bytes", "held_messages")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.held_bytes = 0
        self.held_messages = 0

    def reserve(self, size_bytes: int, messages: int) -> None:
        """Raises a 503 or 429 Problem and holds nothing then.

        Who holds nothing gets its first message whatever the limit is: one set below the largest
        message must not refuse that message for ever.
        """
        budget = self._budget
        if (
            budget.held_bytes + size_bytes > budget.max_bytes
            or budget.held_messages + messages > budget.max_messages
        ) and budget.held_bytes:
            budget.refuse_all()
        if (
            self.held_bytes + size_bytes > budget.share_bytes
            or self.held_messages + messages > budget.share_messages
        ) and self.held_bytes:
            budget.refuse(self)
        budget.held_bytes += size_bytes
        budget.held_messages += messages
        self.held_bytes += size_bytes
        self.held_messages += messages

    def release(self, size_bytes: int, messages: int) -> None:
        budget = self._budget
        budget.held_bytes -= size_bytes
        budget.held_messages -= messages
        self.held_bytes -= size_bytes
        self.held_messages -= messages
        assert self.held_bytes >= 0
        assert self.held_messages >= 0
        if not budget.held_messages and budget.idle is not None:
            budget.idle.set()


class Budget:
    """The limits and what is held of them over all tenants."""

    def __init__(self, settings: PublishSettings) -> None:
        self.max_bytes = settings.max_in_flight_bytes
        self.max_messages = settings.max_in_flight_messages
        self.share_bytes = int(self.max_bytes * settings.tenant_share)
        self.share_messages = int(self.max_messages * settings.tenant_share)
        self.held_bytes = 0
        self.held_messages = 0
        self.refusals = 0
        self.idle: asyncio.Event | None = None
        self._shares: dict[bytes, Share] = {}

    def share(self, tenant_id: bytes) -> Share:
        share = self._shares.get(tenant_id)
        if share is None:
            if len(self._shares) >= 10_000:
                self._forget_idle()
            share = self._shares[tenant_id] = Share(self)
        return share

    async def until_idle(self) -> None:
        """Returns when no accepted message is unanswered."""
        self.idle = asyncio.Event()
        if self.held_messages:
            await self.idle.wait()

    def refuse_all(self) -> NoReturn:
        self.refusals += 1
        raise Problem(
            503,
            "publish-overloaded",
            "Publishing is overloaded",
            "This forwarder holds as many unanswered messages as it may; nothing of this request "
            "was accepted.",
            retry_after_s=RETRY_AFTER_S,
        )

    def refuse(self, share: Share) -> NoReturn:
        self.refusals += 1
        raise Problem(
            429,
            "too-many-in-flight",
            "Too many publishes in flight",
            f"This tenant holds {share.held_messages} unanswered messages "
            f"({share.held_bytes} bytes); nothing of this request was accepted.",
            retry_after_s=RETRY_AFTER_S,
        )

    def _forget_idle(self) -> None:
        self._shares = {
            tenant_id: share for tenant_id, share in self._shares.items() if share.held_bytes
        }
