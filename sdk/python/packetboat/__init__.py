"""Client for Packetboat, the self-hosted HTTP pub/sub platform."""

from __future__ import annotations

from packetboat.async_client import AsyncClient
from packetboat.client import Client
from packetboat.errors import (
    ApiError,
    Conflict,
    ConnectionFailed,
    FieldError,
    InvalidRequest,
    NotAuthorized,
    NotDone,
    NotFound,
    Overloaded,
    PacketboatError,
    Problem,
    ServerError,
    Unavailable,
    UnknownOutcome,
)
from packetboat.models import (
    ItemFailure,
    Message,
    Outgoing,
    Page,
    Receipt,
    Retention,
    Retry,
    Settled,
    Subscription,
    Topic,
)

__all__ = [
    "ApiError",
    "AsyncClient",
    "Client",
    "Conflict",
    "ConnectionFailed",
    "FieldError",
    "InvalidRequest",
    "ItemFailure",
    "Message",
    "NotAuthorized",
    "NotDone",
    "NotFound",
    "Outgoing",
    "Overloaded",
    "PacketboatError",
    "Page",
    "Problem",
    "Receipt",
    "Retention",
    "Retry",
    "ServerError",
    "Settled",
    "Subscription",
    "Topic",
    "Unavailable",
    "UnknownOutcome",
]
