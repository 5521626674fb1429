"""The parts that the tests of one process share."""

from __future__ import annotations

from contextlib import ExitStack

from packetboat.testing.clock import Clock
from packetboat.testing.packetboat import Packetboat
from packetboat.testing.proxy import FaultyProxy
from packetboat.testing.server import Server
from packetboat.testing.tenants import Tenants


class Session:
    """A server, and the way to it."""

    def __init__(self, nodes: int = 1) -> None:
        self._server = Server(nodes)
        self._stack = ExitStack()
        self._stack.callback(self._server.stop)
        self._clock = Clock(self._server)
        self._tenants: Tenants | None = None
        self._proxy: FaultyProxy | None = None

    def start(self) -> Session:
        """Raises NotStarted."""
        self._server.start()
        self._tenants = Tenants(self._server)
        self._stack.callback(self._tenants.close)
        self._proxy = FaultyProxy(self._server.port)
        self._stack.callback(self._proxy.close)
        return self

    def begin(self) -> Packetboat:
        """Set up a Packetboat for one test, which ends in `end`."""
        assert self._tenants is not None
        assert self._proxy is not None
        return Packetboat(self._tenants.make(), self._clock, self._proxy)

    def end(self, packetboat: Packetboat) -> None:
        """Close the clients of a test and delete its tenant."""
        assert self._tenants is not None
        try:
            packetboat.close()
        finally:
            self._tenants.delete(packetboat.tenant)

    def close(self) -> None:
        self._stack.close()
