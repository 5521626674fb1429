"""What the API gives and takes, as typed values."""

from __future__ import annotations

from packetboat.models.messages import (
    Data,
    Durability,
    EarlyDurability,
    Message,
    Outgoing,
    Receipt,
)
from packetboat.models.page import Page
from packetboat.models.settled import ItemFailure, Settled
from packetboat.models.subscriptions import Retry, Subscription
from packetboat.models.topics import Retention, Topic

__all__ = [
    "Data",
    "Durability",
    "EarlyDurability",
    "ItemFailure",
    "Message",
    "Outgoing",
    "Page",
    "Receipt",
    "Retention",
    "Retry",
    "Settled",
    "Subscription",
    "Topic",
]
