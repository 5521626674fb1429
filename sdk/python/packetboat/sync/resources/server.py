# Generated from aio/resources/server.py: `make generate`. Do not edit.
"""The installation: its health, its forwarders, and the caller of a token."""

from __future__ import annotations

from packetboat.calls import tenancy as calls
from packetboat.models import Fleet, WhoAmI
from packetboat.sync.sender import Sender


class Server:
    """The installation: its health, its forwarders, and the caller of a token."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def who_am_i(self, *, timeout_s: float | None = None) -> WhoAmI:
        """Return the tenant and the subject of the token, with what the token allows."""
        return self._sender.send(calls.who_am_i(), timeout_s)

    def forwarders(self, *, timeout_s: float | None = None) -> Fleet:
        """Return the processes that deliver messages, and their load."""
        return self._sender.send(calls.list_forwarders(), timeout_s)

    def alive(self, *, timeout_s: float | None = None) -> None:
        """Return once a process has answered."""
        self._sender.send(calls.healthz(), timeout_s)

    def ready(self, *, timeout_s: float | None = None) -> None:
        """Return where the process takes requests. Raise Unavailable where it does not."""
        self._sender.send(calls.readyz(), timeout_s)
