"""Pages for operators, over HTTP, in threads of their own: metrics, and the health of a process.

No work of a process goes over this port, so it needs no secret. The network decides who may reach
it; by default only this machine can. A page is made in the thread that answers, so the event loop
never makes one.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import BoundedSemaphore, Lock, Thread
from typing import Any, NamedTuple

IDLE_S = 10.0
"""Seconds after which a connection that sends nothing is closed."""
MAX_CONNECTIONS = 32
"""Connections beyond these are closed at once, since each is a thread."""
CACHED_S = 1.0
JSON = "application/json"


class Page(NamedTuple):
    """An answer to a request."""

    status: int
    kind: str
    body: bytes


Answer = Callable[[str], Page]
"""Function that returns the page of a path, which has no query.

It raises TimeoutError if the process does not answer in time.
"""


class PageServer:
    """A server of pages, which runs until `close`."""

    def __init__(self, listener: socket.socket, answer: Answer, *, name: str) -> None:
        """Start a server on a bound listener, which the server closes."""
        self._server = _Server(listener, _handler(answer))
        Thread(target=self._server.serve_forever, name=name, daemon=True).start()

    def close(self) -> None:
        """Stop the server; blocks for half a second at most."""
        self._server.shutdown()
        self._server.server_close()


class Cached:
    """A page that is made at most once in `CACHED_S`; other calls return the last one."""

    def __init__(
        self, make: Callable[[], Page], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._make = make
        self._clock = clock
        self._lock = Lock()
        self._page: Page | None = None
        self._made_s = 0.0

    def __call__(self) -> Page:
        with self._lock:
            now_s = self._clock()
            if self._page is None or now_s - self._made_s >= CACHED_S:
                self._page, self._made_s = self._make(), now_s
            return self._page


class _Server(ThreadingHTTPServer):
    def __init__(self, listener: socket.socket, handler: type[BaseHTTPRequestHandler]) -> None:
        TCPServer.__init__(self, listener.getsockname(), handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.socket.setblocking(True)
        self._free = BoundedSemaphore(MAX_CONNECTIONS)
        self.server_activate()

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore the error: the client has gone."""


def _handler(answer: Answer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """A handler of GET and HEAD requests, which logs nothing."""

        timeout = IDLE_S

        def do_GET(self) -> None:
            try:
                page = answer(self.path.partition("?")[0])
            except TimeoutError:
                page = Page(503, JSON, b'{"loop": "does not answer"}')
            self.send_response(page.status)
            self.send_header("Content-Type", page.kind)
            self.send_header("Content-Length", str(len(page.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(page.body)

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: probes come every few seconds."""

    return Handler
