"""Workers: handlers that are called for the messages of subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packetboat.renamed import renamed
from packetboat.worker.app import WorkerApp
from packetboat.worker.context import Context
from packetboat.worker.emit import Emit
from packetboat.worker.events import WorkerEvents
from packetboat.worker.handlers import Handler, Middleware
from packetboat.worker.outcomes import Reject, Release, RetryLater, Verb
from packetboat.worker.settings import WorkerOptions, WorkerSettings
from packetboat.worker.worker import Worker

__all__ = [
    "Context",
    "Emit",
    "Handler",
    "Middleware",
    "Reject",
    "Release",
    "RetryLater",
    "Verb",
    "Worker",
    "WorkerApp",
    "WorkerEvents",
    "WorkerOptions",
    "WorkerSettings",
]

if not TYPE_CHECKING:  # 0.2.0 called it Retry, as it did two other classes
    __getattr__ = renamed(__name__, {"Retry": RetryLater})
