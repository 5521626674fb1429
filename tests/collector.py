"""A collector of OpenTelemetry that keeps what it is sent: OTLP over HTTP, in its own messages."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

T = TypeVar("T")
WAIT_S = 30.0


class Collector:
    """Listens from its making until `close`."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.metrics: list[Any] = []
        self.resources: list[dict[str, str]] = []
        """Attributes of those who sent, one for each group of spans or metrics."""
        self.paths: set[str] = set()
        self._came = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def until(self, look: Callable[[], T | None], wait_s: float = WAIT_S) -> T:
        """Wait until `look` finds something in the received data, and return it.

        Raises TimeoutError.
        """
        found: T | None = None

        def seen() -> bool:
            nonlocal found
            found = look()
            return found is not None

        with self._came:
            self._came.wait_for(seen, wait_s)
            if found is None:
                raise TimeoutError(f"there are {sorted({span.name for span in self.spans})}")
            return found

    def _take(self, path: str, body: bytes) -> None:
        with self._came:
            self.paths.add(path)
            if path == "/v1/traces":
                for spans in ExportTraceServiceRequest.FromString(body).resource_spans:
                    self._note(spans.resource)
                    self.spans += [one for scope in spans.scope_spans for one in scope.spans]
            elif path == "/v1/metrics":
                for told in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    self._note(told.resource)
                    self.metrics += [one for scope in told.scope_metrics for one in scope.metrics]
            self._came.notify_all()

    def _note(self, resource: Any) -> None:
        self.resources.append({one.key: one.value.string_value for one in resource.attributes})

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        take = self._take

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                known = self.headers["Content-Type"] == "application/x-protobuf"
                if known:
                    take(self.path, body)
                self.send_response(200 if known else 415)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing."""

        return Handler


def attributes_of(one: Any) -> dict[str, str | int]:
    """Return the attributes of a span, or of a point of a metric."""
    return {
        each.key: each.value.int_value
        if each.value.HasField("int_value")
        else each.value.string_value
        for each in one.attributes
    }
