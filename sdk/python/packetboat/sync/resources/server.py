# Generated from aio/resources/server.py: `make generate`. Do not edit.
"""The installation itself: whether it is up, who delivers, who a token is."""

from __future__ import annotations

from packetboat.calls import server as calls
from packetboat.models import Fleet, WhoAmI
from packetboat.sync.sender import Sender


class Server:
    """The installation itself: whether it is up, who delivers, who a token is."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def who_am_i(self, *, timeout_s: float | None = None) -> WhoAmI:
        """The tenant and subject of the token, and what it may do."""
        return self._sender.send(calls.who_am_i(), timeout_s)

    def forwarders(self, *, timeout_s: float | None = None) -> Fleet:
        """Who delivers messages, with which load."""
        return self._sender.send(calls.list_forwarders(), timeout_s)

    def alive(self, *, timeout_s: float | None = None) -> None:
        """Returns where a process answers."""
        self._sender.send(calls.healthz(), timeout_s)

    def ready(self, *, timeout_s: float | None = None) -> None:
        """Returns where it should be sent requests; raises Unavailable where not."""
        self._sender.send(calls.readyz(), timeout_s)
