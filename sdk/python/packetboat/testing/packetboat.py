"""The fixture of a test: a tenant of its own on a shared server, its clock, and faults."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from packetboat import AsyncClient, Client
from packetboat.testing.clock import Clock
from packetboat.testing.faults import Faults
from packetboat.testing.proxy import FaultyProxy
from packetboat.testing.server import Server
from packetboat.testing.tenants import Access, Tenants


class Packetboat:
    """The fixture `packetboat`."""

    def __init__(self, access: Access, clock: Clock, proxy: FaultyProxy) -> None:
        self.url: str = proxy.url
        """The URL of a proxy in front of the server, which makes faults for every client."""
        self.token: str = access.key
        """May do everything in this tenant, and does not expire."""
        self.tenant: str = access.name
        self.clock = clock
        self.faults: Faults = proxy.begin()
        self._clients = ExitStack()

    def client(self, **settings: Any) -> Client:
        """Return a client that is closed when the test ends.

        `settings` are those of `packetboat.Client`.
        """
        return self._clients.enter_context(Client(self.url, self.token, **settings))

    def async_client(self, **settings: Any) -> AsyncClient:
        """Return a client for `async with`, which the test itself closes."""
        return AsyncClient(self.url, self.token, **settings)

    def close(self) -> None:
        """Nothing fails any more, so that clients end well."""
        self.faults.stop()
        self._clients.close()


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
