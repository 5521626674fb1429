"""Receiving webhooks: verify that Packetboat sent a request, and read what it brings.

from packetboat.webhooks import Receiver
from packetboat.webhooks.flask import webhook       # or .starlette, .django

receiver = Receiver(["whsec_…"])

@app.post("/orders")
@webhook(receiver)
def orders(delivery):
    for message in delivery.messages:
        take(message.json())
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packetboat.renamed import renamed
from packetboat.webhooks.answers import Answer, Pace
from packetboat.webhooks.deliveries import Challenge, Delivery, Format, Message
from packetboat.webhooks.errors import (
    BadSignature,
    BadTimestamp,
    BadToken,
    DeliverLater,
    Gone,
    MissingHeader,
    NotVerified,
    Outcome,
    Reject,
    Unreadable,
    WebhookError,
)
from packetboat.webhooks.receiver import AsyncHandler, Handler, Receiver, verify
from packetboat.webhooks.seen import RecentIds, SeenIds
from packetboat.webhooks.tokens import Tokens

__all__ = [
    "Answer",
    "AsyncHandler",
    "BadSignature",
    "BadTimestamp",
    "BadToken",
    "Challenge",
    "DeliverLater",
    "Delivery",
    "Format",
    "Gone",
    "Handler",
    "Message",
    "MissingHeader",
    "NotVerified",
    "Outcome",
    "Pace",
    "Receiver",
    "RecentIds",
    "Reject",
    "SeenIds",
    "Tokens",
    "Unreadable",
    "WebhookError",
    "verify",
]

if not TYPE_CHECKING:  # 0.2.0 called it Retry, as it did two other classes
    __getattr__ = renamed(__name__, {"Retry": DeliverLater})
