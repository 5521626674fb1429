"""An installation for benchmarks of webhooks, and endpoints for it.

One endpoint answers at once, the other records the age of messages.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.body import age_s
from benchmarks.packetboat_cluster import PacketboatCluster
from harness.balancers import program
from harness.processes import NotReady, Processes, free_ports, listening, wait_until

HOST = "127.0.0.1"
CONCURRENCY = 100
PATIENCE_S = 600.0
POLL_S = 0.2
METRICS_POLL_S = 0.5
"""Pause between reads of metrics, since a page costs the server some milliseconds."""
_ENDPOINT = """
daemon off; pid nginx.pid; error_log stderr; worker_processes 1;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 100000000; client_max_body_size 16m; {temporary}
  server {{ listen {host}:{port} backlog=4096; location / {{ return 204; }} }}
}}
"""
_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
Row = dict[str, Any]


class Endpoint:
    """An nginx that answers 204 at once."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (self.port,) = free_ports(1)
        self._processes = Processes()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def start(self) -> None:
        """Raises NotReady."""
        if not program("nginx"):
            raise NotReady("nginx is not installed")
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.directory / "nginx.conf"
        temporary = " ".join(f"{kind}_temp_path temp-{kind};" for kind in _TEMPORARY)
        config.write_text(_ENDPOINT.format(host=HOST, port=self.port, temporary=temporary))
        command = [program("nginx"), "-p", str(self.directory), "-c", str(config), "-e", "stderr"]
        self._processes.start(command, log=self.directory / "nginx.log")
        wait_until(lambda: listening(self.port), timeout_s=10, what="nginx")

    def stop(self) -> None:
        self._processes.stop(grace_s=2.0)


class Site:
    """An installation and an endpoint."""

    def __init__(self, root: Path) -> None:
        self.cluster = PacketboatCluster(root / "packetboat")
        self.endpoint = Endpoint(root / "endpoint")

    def subscribe(self, name: str, topic: str, url: str, **more: Any) -> None:
        """A push subscription whose requests are signed."""
        push = {"url": url, "verify": False, "max_concurrency": CONCURRENCY} | more
        body = {"name": name, "type": "push", "push": push}
        self.cluster.create(f"/topics/{topic}/subscriptions", body)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request; return the JSON of its answer. Raises NotReady."""
        headers = {"Authorization": f"Bearer {self.cluster.token}"}
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            headers["Content-Type"] = "application/json"
        asked = urllib.request.Request(self.cluster.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(asked, timeout=30) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise NotReady(f"{method} {path}: {error.code} {error.read()[:300]!r}") from error
        return json.loads(text) if text else None

    def counted(self, metric: str) -> dict[str, float]:
        """Return a counter of the server, by its one label."""
        with urllib.request.urlopen(self.cluster.metrics_url) as answer:
            text = answer.read().decode()
        found = re.findall(rf'^{metric}\{{\w+="([^"]+)"\}} (\S+)$', text, re.MULTILINE)
        return {label: float(value) for label, value in found}

    def delivered(self) -> float:
        return self.counted("packetboat_push_messages_total").get("delivered", 0.0)

    def until_delivered(self, count: float, patience_s: float = PATIENCE_S) -> None:
        """Wait until `count` messages were delivered in all."""
        deadline_s = time.monotonic() + patience_s
        while (delivered := self.delivered()) < count:
            if time.monotonic() > deadline_s:
                raise NotReady(f"{delivered:.0f} of {count:.0f} deliveries")
            time.sleep(METRICS_POLL_S)


@contextmanager
def site() -> Iterator[Site]:
    """Yield a site in a directory of its own."""
    root = Path(tempfile.mkdtemp(prefix="packetboat-push-"))
    root.chmod(0o711)  # Postgres runs under an account with fewer rights if we are root.
    made = Site(root)
    try:
        made.endpoint.start()
        made.cluster.start()
        yield made
    finally:
        made.cluster.stop()
        made.endpoint.stop()
        shutil.rmtree(root, ignore_errors=True)


class Receiver:
    """An endpoint in this process that notes how old messages are."""

    def __init__(self) -> None:
        self.latencies_s: list[float] = []
        self.port = 0
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, 0, backlog=4096)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()
                return
            length = re.search(rb"(?i)content-length: (\d+)", head)
            body = await reader.readexactly(int(length[1])) if length else b""
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
            self.latencies_s.append(age_s(body.decode()))

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()
