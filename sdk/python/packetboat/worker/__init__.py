"""Workers: handlers that are called for the messages of subscriptions."""

from __future__ import annotations

from packetboat.worker.app import WorkerApp
from packetboat.worker.context import Context
from packetboat.worker.emit import Emit
from packetboat.worker.events import WorkerEvents
from packetboat.worker.handlers import Handler, Middleware
from packetboat.worker.outcomes import Reject, Release, Retry, Verb
from packetboat.worker.settings import WorkerOptions, WorkerSettings
from packetboat.worker.worker import Worker

__all__ = [
    "Context",
    "Emit",
    "Handler",
    "Middleware",
    "Reject",
    "Release",
    "Retry",
    "Verb",
    "Worker",
    "WorkerApp",
    "WorkerEvents",
    "WorkerOptions",
    "WorkerSettings",
]
