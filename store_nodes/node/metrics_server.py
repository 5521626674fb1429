"""Serves `/metrics`, `/healthz` and `/readyz` of a node.

A thread asks the event loop and waits; if the loop hangs, the answer is 503.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import TypeVar

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from edge.exposition import exposition
from edge.page_server import JSON, Cached, Page, PageServer
from store_nodes.node.metrics import MeasuredNode, families, unready
from store_nodes.settings import Address

ANSWER_S = 5.0
"""Seconds without an answer after which the loop counts as hung."""
_Result = TypeVar("_Result")


class MetricsServer:
    """The server from `start` to `close`; it also serves the other metrics registered in this
    process.
    """

    def __init__(self, node: MeasuredNode, *, old_names: bool = False) -> None:
        """Prepare a server; `old_names` adds the metrics under their names of release 0.2."""
        self._node = node
        self._old_names = old_names
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: PageServer | None = None
        self._families = _Families(lambda: self._ask(families))
        self._metrics = Cached(self._exposition)

    def start(self, address: Address) -> Address:
        """Listen, on the running loop; return the address with its real port. Raises OSError."""
        self._loop = asyncio.get_running_loop()
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        listener = socket.create_server(address, family=family)
        host, port = listener.getsockname()[:2]
        self._server = PageServer(listener, self._answer, name="store-metrics")
        REGISTRY.register(self._families)
        return str(host), port

    async def close(self) -> None:
        """Stop answering; the loop continues meanwhile, so that it can answer open questions."""
        if self._server is not None:
            await asyncio.to_thread(self._server.close)
            REGISTRY.unregister(self._families)

    def _answer(self, path: str) -> Page:
        """Return the page for a path; raises TimeoutError."""
        if path == "/metrics":
            return self._metrics()
        if path == "/healthz":
            self._ask(lambda _: None)
            return Page(200, JSON, b"{}")
        if path == "/readyz":
            reasons = self._ask(unready)
            return Page(503 if reasons else 200, JSON, json.dumps(reasons).encode())
        return Page(404, JSON, b"{}")

    def _exposition(self) -> Page:
        return Page(200, CONTENT_TYPE_LATEST, exposition(REGISTRY, old_names=self._old_names))

    def _ask(self, question: Callable[[MeasuredNode], _Result]) -> _Result:
        """Return the answer to `question` about the node, asked on its loop by a thread."""
        assert self._loop is not None
        answer: Future[_Result] = Future()

        def on_loop() -> None:
            try:
                answer.set_result(question(self._node))
            except Exception as error:
                answer.set_exception(error)

        self._loop.call_soon_threadsafe(on_loop)
        return answer.result(ANSWER_S)


class _Families(Collector):
    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self._collect = collect

    def describe(self) -> Iterable[Metric]:
        """Return no families ahead, so that registering asks nothing."""
        return ()

    def collect(self) -> Iterable[Metric]:
        return self._collect()
