"""`/metrics`, `/healthz` and `/readyz` of a node, over HTTP, in threads of their own.

A thread asks the event loop and waits: a loop that hangs is answered for as 503. Nothing of the
node's work goes over this port, so it needs no secret; who may reach it is for the network to say.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import Thread
from typing import TypeVar

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from edge.exposition import exposition
from store_nodes.metrics import Told, families, unready
from store_nodes.settings import Address

ANSWER_S = 5.0
"""A loop that lets a question wait for so long hangs."""
IDLE_S = 10.0
"""A connection that sends nothing for so long is closed."""
_JSON = "application/json"
_Result = TypeVar("_Result")


class MetricsServer:
    """From `start` to `close`; what is registered with Prometheus in this process is told too."""

    def __init__(self, node: Told, *, old_names: bool = False) -> None:
        """`old_names`: whether metrics are also told by their names of 0.2."""
        self._node = node
        self._old_names = old_names
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: _Server | None = None
        self._families = _Families(lambda: self._ask(families))

    def start(self, address: Address) -> Address:
        """On the running loop. Where it listens, port 0 replaced; raises OSError."""
        self._loop = asyncio.get_running_loop()
        self._server = _Server(address, _handler(self._answer))
        Thread(target=self._server.serve_forever, name="store-metrics", daemon=True).start()
        REGISTRY.register(self._families)
        host, port = self._server.server_address[:2]
        return str(host), port

    async def close(self) -> None:
        """Answers nothing any more. The loop goes on meanwhile, for those who still ask it."""
        if self._server is not None:
            await asyncio.to_thread(self._server.shutdown)
            self._server.server_close()
            REGISTRY.unregister(self._families)

    def _answer(self, path: str) -> tuple[int, str, bytes]:
        """Status, content type and body; raises TimeoutError."""
        if path == "/metrics":
            return 200, CONTENT_TYPE_LATEST, exposition(REGISTRY, old_names=self._old_names)
        if path == "/healthz":
            self._ask(lambda _: None)
            return 200, _JSON, b"{}"
        if path == "/readyz":
            reasons = self._ask(unready)
            return 503 if reasons else 200, _JSON, json.dumps(reasons).encode()
        return 404, _JSON, b"{}"

    def _ask(self, question: Callable[[Told], _Result]) -> _Result:
        """In a thread: what `question` says of the node on its loop."""
        assert self._loop is not None
        answer: Future[_Result] = Future()

        def on_loop() -> None:
            try:
                answer.set_result(question(self._node))
            except Exception as error:
                answer.set_exception(error)

        self._loop.call_soon_threadsafe(on_loop)
        return answer.result(ANSWER_S)


class _Server(ThreadingHTTPServer):
    def server_bind(self) -> None:
        """Without the look at DNS for a name that nobody uses: it can take long."""
        TCPServer.server_bind(self)

    def handle_error(self, request: object, client_address: object) -> None:
        """Who asked has gone."""


class _Families(Collector):
    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self._collect = collect

    def describe(self) -> Iterable[Metric]:
        """None known ahead: registering asks nothing."""
        return ()

    def collect(self) -> Iterable[Metric]:
        return self._collect()


def _handler(
    answer: Callable[[str], tuple[int, str, bytes]],
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """GET and HEAD only; logs nothing."""

        timeout = IDLE_S

        def do_GET(self) -> None:
            try:
                status, kind, body = answer(self.path.partition("?")[0])
            except TimeoutError:
                status, kind, body = 503, _JSON, b'{"loop": "does not answer"}'
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:
            """Probes come every few seconds."""

    return Handler
