# Generated from openapi/: `make generate`. Do not edit.
"""Parked keys of ordered subscriptions."""

from __future__ import annotations

from packetboat.aio.sender import AsyncSender
from packetboat.calls import messaging as calls
from packetboat.models import ParkedKey


class AsyncParkedKeys:
    """Parked keys of ordered subscriptions."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def list(
        self, subscription: str, *, timeout_s: float | None = None
    ) -> tuple[ParkedKey, ...]:
        """Return the keys whose first message failed for good, with the number of messages that
        wait behind it."""
        return await self._sender.send(calls.list_parked_keys(subscription), timeout_s)

    async def resume(self, subscription: str, key: str, *, timeout_s: float | None = None) -> int:
        """Deliver the messages of the key again, and return the number of keys resumed."""
        return await self._sender.send(calls.resume_parked_key(subscription, key), timeout_s)

    async def skip(
        self,
        subscription: str,
        key: str,
        *,
        dead_letter: bool = False,
        timeout_s: float | None = None,
    ) -> int:
        """Give up the first message of the key, as a dead letter if `dead_letter` is true, and
        return the number of keys resumed."""
        return await self._sender.send(
            calls.skip_parked_key(subscription, key, dead_letter), timeout_s
        )
