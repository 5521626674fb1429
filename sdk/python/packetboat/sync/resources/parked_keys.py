# Generated from aio/resources/parked_keys.py: `make generate`. Do not edit.
"""Keys of ordered subscriptions that wait aside."""

from __future__ import annotations

from packetboat.calls import dead_letters as calls
from packetboat.models import ParkedKey
from packetboat.sync.sender import Sender


class ParkedKeys:
    """Keys of ordered subscriptions that wait aside."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def list(self, subscription: str, *, timeout_s: float | None = None) -> tuple[ParkedKey, ...]:
        """Those whose first message is used up, with how many wait behind it."""
        return self._sender.send(calls.list_parked_keys(subscription), timeout_s)

    def resume(self, subscription: str, key: str, *, timeout_s: float | None = None) -> int:
        """Delivers its messages again; returns how many keys that was about."""
        return self._sender.send(calls.resume_parked_key(subscription, key), timeout_s)

    def skip(
        self,
        subscription: str,
        key: str,
        *,
        dead_letter: bool = False,
        timeout_s: float | None = None,
    ) -> int:
        """Gives up its first message, as a dead letter if said so; returns how many keys that was
        about."""
        return self._sender.send(calls.skip_parked_key(subscription, key, dead_letter), timeout_s)
