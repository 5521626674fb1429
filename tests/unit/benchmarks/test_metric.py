"""The figures that a benchmark reads from the metrics page of a server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from benchmarks.packetboat_cluster import PacketboatCluster
from benchmarks.sdk_publish import REQUESTS
from harness.processes import NotReady

PAGE = b"""# TYPE packetboat_gateway_requests_total counter
packetboat_gateway_requests_total{method="POST",route="/topics",status="201"} 1.0
packetboat_gateway_requests_total{method="POST",route="/topics/{topic}/messages",status="201"} 40.0
packetboat_gateway_requests_total{method="GET",route="/topics",status="200"} 300.0
packetboat_scheduler_releases_total 7.0
"""


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[PacketboatCluster]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever).start()
        cluster = PacketboatCluster(tmp_path)
        cluster.metrics_url = f"http://127.0.0.1:{server.server_port}/metrics"
        yield cluster
        server.shutdown()


def test_a_metric_is_the_sum_of_the_samples_that_begin_so(cluster: PacketboatCluster) -> None:
    assert cluster.metric(REQUESTS) == 41
    assert cluster.metric("packetboat_scheduler_releases_total ") == 7


def test_a_metric_that_the_server_does_not_have_is_not_zero(cluster: PacketboatCluster) -> None:
    with pytest.raises(NotReady, match="no metric"):
        cluster.metric("packetboat_scheduler_releases ")
