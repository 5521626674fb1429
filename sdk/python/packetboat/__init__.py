"""Client for Packetboat, the self-hosted HTTP pub/sub platform.

The names here are the public API. Each is imported when it is first used, so that a program that
imports the package loads only the parts that it uses.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from packetboat.aio.client import AsyncClient
    from packetboat.credentials import ClientCredentials, StaticToken, TokenFile
    from packetboat.errors import (
        ApiError,
        BufferFull,
        ClientClosed,
        Conflict,
        ConnectionFailed,
        Dropped,
        FieldError,
        InvalidRequest,
        LeaseLost,
        NotAuthorized,
        NotDone,
        NotFound,
        Overloaded,
        PacketboatError,
        PrecedingFailed,
        Problem,
        QuotaExceeded,
        ServerError,
        Unavailable,
        UnknownOutcome,
        UntrustedServer,
    )
    from packetboat.lake.cursor import ReadCursor
    from packetboat.lake.errors import HistoryMissing, LakeNotInstalled
    from packetboat.lake.read_message import ReadMessage
    from packetboat.models import (
        Edit,
        FirstOwner,
        ItemFailure,
        Message,
        Outgoing,
        Output,
        Page,
        Push,
        PushToken,
        RateLimit,
        Receipt,
        Retention,
        RetryPolicy,
        ScheduleMessage,
        Settled,
        StoredMessage,
        Subscription,
        Topic,
    )
    from packetboat.options import (
        Options,
        Tls,
    )
    from packetboat.publisher.pending_receipt import PendingReceipt
    from packetboat.publisher.settings import PublisherSettings
    from packetboat.sync.client import Client
    from packetboat.tasks.context import TaskContext
    from packetboat.tasks.errors import JobCancelled, JobFailed
    from packetboat.tasks.registry import Tasks
    from packetboat.tasks.worker import TaskWorker
    from packetboat.worker.app import WorkerApp
    from packetboat.worker.emit import Emit
    from packetboat.worker.worker import Worker

__all__ = [
    "ApiError",
    "AsyncClient",
    "BufferFull",
    "Client",
    "ClientClosed",
    "ClientCredentials",
    "Conflict",
    "ConnectionFailed",
    "Dropped",
    "Edit",
    "Emit",
    "FieldError",
    "FirstOwner",
    "HistoryMissing",
    "InvalidRequest",
    "ItemFailure",
    "JobCancelled",
    "JobFailed",
    "LakeNotInstalled",
    "LeaseLost",
    "Message",
    "NotAuthorized",
    "NotDone",
    "NotFound",
    "Options",
    "Outgoing",
    "Output",
    "Overloaded",
    "PacketboatError",
    "Page",
    "PendingReceipt",
    "PrecedingFailed",
    "Problem",
    "PublisherSettings",
    "Push",
    "PushToken",
    "QuotaExceeded",
    "RateLimit",
    "ReadCursor",
    "ReadMessage",
    "Receipt",
    "Retention",
    "RetryPolicy",
    "ScheduleMessage",
    "ServerError",
    "Settled",
    "StaticToken",
    "StoredMessage",
    "Subscription",
    "TaskContext",
    "TaskWorker",
    "Tasks",
    "Tls",
    "TokenFile",
    "Topic",
    "Unavailable",
    "UnknownOutcome",
    "UntrustedServer",
    "Worker",
    "WorkerApp",
]

_HOMES = {
    "packetboat.aio.client": ("AsyncClient",),
    "packetboat.sync.client": ("Client",),
    "packetboat.credentials": (
        "ClientCredentials",
        "StaticToken",
        "TokenFile",
    ),
    "packetboat.errors": (
        "ApiError",
        "BufferFull",
        "ClientClosed",
        "Conflict",
        "ConnectionFailed",
        "Dropped",
        "FieldError",
        "InvalidRequest",
        "LeaseLost",
        "NotAuthorized",
        "NotDone",
        "NotFound",
        "Overloaded",
        "PacketboatError",
        "PrecedingFailed",
        "Problem",
        "QuotaExceeded",
        "ServerError",
        "Unavailable",
        "UnknownOutcome",
        "UntrustedServer",
    ),
    "packetboat.lake.cursor": ("ReadCursor",),
    "packetboat.lake.errors": ("HistoryMissing", "LakeNotInstalled"),
    "packetboat.lake.read_message": ("ReadMessage",),
    "packetboat.models": (
        "Edit",
        "FirstOwner",
        "ItemFailure",
        "Message",
        "Outgoing",
        "Output",
        "Page",
        "Push",
        "PushToken",
        "RateLimit",
        "Receipt",
        "Retention",
        "RetryPolicy",
        "ScheduleMessage",
        "Settled",
        "StoredMessage",
        "Subscription",
        "Topic",
    ),
    "packetboat.options": (
        "Options",
        "Tls",
    ),
    "packetboat.publisher.pending_receipt": ("PendingReceipt",),
    "packetboat.publisher.settings": ("PublisherSettings",),
    "packetboat.tasks.context": ("TaskContext",),
    "packetboat.tasks.errors": ("JobCancelled", "JobFailed"),
    "packetboat.tasks.registry": ("Tasks",),
    "packetboat.tasks.worker": ("TaskWorker",),
    "packetboat.worker.app": ("WorkerApp",),
    "packetboat.worker.emit": ("Emit",),
    "packetboat.worker.worker": ("Worker",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

if not TYPE_CHECKING:  # type checkers know the names from above, and that there are no others

    def __getattr__(name: str) -> Any:
        home = _HOME_OF.get(name)
        if name == "Retry":  # the name in 0.2.0; `packetboat.models` warns of it
            return import_module("packetboat.models").Retry
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        thing = getattr(import_module(home), name)
        globals()[name] = thing
        return thing


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
