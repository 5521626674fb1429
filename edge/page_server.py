"""Pages for operators, over HTTP, in threads of their own: metrics, and whether a process is well.

Nothing of a process's work goes over this port, so it needs no secret; who may reach it is for the
network to say, and by default only this machine does. A page is made in the thread that answers, so
the event loop never makes one.
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
"""A connection that sends nothing for so long is closed."""
MAX_CONNECTIONS = 32
"""More are closed at once: each is a thread."""
CACHED_S = 1.0
JSON = "application/json"


class Page(NamedTuple):
    """An answer."""

    status: int
    kind: str
    body: bytes


Answer = Callable[[str], Page]
"""Of a path without its query; raises TimeoutError where the process does not say in time."""


class PageServer:
    """From its making to `close`."""

    def __init__(self, listener: socket.socket, answer: Answer, *, name: str) -> None:
        """`listener` is bound; the server closes it."""
        self._server = _Server(listener, _handler(answer))
        Thread(target=self._server.serve_forever, name=name, daemon=True).start()

    def close(self) -> None:
        """Blocking, for half a second at most; answers nothing any more."""
        self._server.shutdown()
        self._server.server_close()


class Cached:
    """Makes a page once in `CACHED_S`, whoever asks; callers meanwhile have the last one."""

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
        """Who asked has gone."""


def _handler(answer: Answer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """GET and HEAD only; logs nothing."""

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
            """Probes come every few seconds."""

    return Handler
