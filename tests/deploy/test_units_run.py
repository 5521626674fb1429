"""The programs of the systemd units run with the settings of their examples, and end on request.

The whole installation on one machine, as `docs/operations/systemd.md` says: every `ExecStart`, with
its environment files, confined as far as a test can. Its metrics are those that the alerts and the
dashboard ask for.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import asyncpg
import pytest
import requests

from auth.development import token_hash
from harness.processes import free_ports
from metadata.postgres.embedded import EmbeddedPostgres
from tests.deploy.unit_files import SYSTEM, Machine
from tests.tidy.test_alerts import METRIC, alerts, named_on_dashboards

ROOT = Path(__file__).parents[2]
NODES = ("1", "2", "3")
SERVERS = ("publish", "subscribe", "gateway", "scheduler")
START_S = 120.0
STOP_S = 60.0
LAKES = """
[[lakes]]
name = "default"
warehouse = "{root}"
spark_master = "local[1]"

[lakes.catalog]
type = "sql"
uri = "sqlite:///{root}/catalog.db"
"""


class Units:
    """An installation of which every process is started as its unit says."""

    def __init__(self, root: Path, database_url: str) -> None:
        self.root = root
        self.machine = Machine(root, Path(sys.executable).parent)
        self.token = f"pbdev_{secrets.token_hex(16)}"
        ports = [str(port) for port in free_ports(len(NODES) * 2 + len(SERVERS) + 1)]
        self.store_ports, ports = ports[: len(NODES)], ports[len(NODES) :]
        self.metrics = dict(zip(NODES, ports, strict=False))
        self.ports = dict(zip((*SERVERS, "export-runner"), ports[len(NODES) :], strict=True))
        self.server_metrics = dict(zip(SERVERS, free_ports(len(SERVERS)), strict=True))
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._configure(database_url)

    def _configure(self, database_url: str) -> None:
        store_secret = secrets.token_hex(32)
        nodes = ",".join(
            f"{node}=127.0.0.1:{port}@zone-{node}"
            for node, port in zip(NODES, self.store_ports, strict=True)
        )
        configure = self.machine.configure
        configure("packetboat.env", {"PACKETBOAT_STORE_NODES": nodes})
        uid = {"PACKETBOAT_CLUSTER_UID": secrets.token_hex(16)}
        configure("store.env", {"PACKETBOAT_STORE_SECRET": store_secret} | uid)
        for node, port in self.metrics.items():
            configure(f"store-node-{node}.env", {"PACKETBOAT_STORE_METRICS_PORT": port})
        for role, port in self.server_metrics.items():
            own = {"PACKETBOAT_METRICS_PORT": str(port)}
            configure(f"{role}-{self.ports[role]}.env", own)
        configure(
            "server.env",
            {
                "PACKETBOAT_DATABASE_URL": database_url,
                "PACKETBOAT_STORE_SECRET": store_secret,
                "PACKETBOAT_ACK_SECRET": secrets.token_hex(32),
                "PACKETBOAT_SEAL_KEYS": f"a:{secrets.token_hex(32)}",
                "PACKETBOAT_DEV_TOKEN_SHA256": token_hash(self.token),
            },
        )

    def start(self, unit: str, instance: str = "", **more: bool) -> None:
        path = SYSTEM / f"{unit}{'@' if instance else ''}.service"
        self.machine.state_directory(path, instance)
        name = f"{unit}@{instance}"
        with (self.root / f"{name}.log").open("wb") as log:
            self.running[name] = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.deploy.confined"),
                    *(["--may-compile"] if more.get("may_compile") else []),
                    *self.machine.command(path, instance),
                ],
                env={"PATH": "/usr/bin:/bin", **self.machine.environment(path, instance)},
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def finish(self, unit: str) -> None:
        """Run a unit that ends by itself; its exit status must be 0."""
        self.start(unit)
        assert self.running.pop(f"{unit}@").wait(START_S) == 0, self.logs()

    def until(self, port: str, path: str = "/readyz") -> requests.Response:
        """Return the answer of a path, once it is 200."""
        deadline_s = time.monotonic() + START_S
        while time.monotonic() < deadline_s:
            with suppress(requests.RequestException):
                answer = requests.get(f"http://127.0.0.1:{port}{path}", timeout=10)
                if answer.ok:
                    return answer
            time.sleep(0.1)
        raise AssertionError(f"{port}{path} is not well\n{self.logs()}")

    def call(self, role: str, method: str, path: str, body: object) -> requests.Response:
        answer = requests.request(
            method,
            f"http://127.0.0.1:{self.ports[role]}{path}",
            json=body,
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=60,
        )
        assert answer.ok, answer.text
        return answer

    def stop(self, name: str) -> int:
        process = self.running.pop(name)
        process.send_signal(signal.SIGTERM)
        return process.wait(STOP_S)

    def kill(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()

    def logs(self) -> str:
        return "\n".join(
            f"--- {path.name}\n{path.read_text(errors='replace')[-1500:]}"
            for path in sorted(self.root.glob("*.log"))
        )


async def _make_database(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("CREATE DATABASE units")
    finally:
        await connection.close()


@pytest.fixture(scope="module")
def installation(
    postgres_server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Units]:
    asyncio.run(_make_database(postgres_server.url))
    url = f"{postgres_server.url.rsplit('/', 1)[0]}/units"
    units = Units(tmp_path_factory.mktemp("machine"), url)
    try:
        units.finish("packetboat-migrate")
        for node in NODES:
            units.start("packetboat-store-node", node)
        for role in SERVERS:
            units.start(f"packetboat-{role}", units.ports[role])
        for port in (*units.metrics.values(), *(units.ports[role] for role in SERVERS)):
            units.until(port)
        yield units
    finally:
        units.kill()


def test_a_message_goes_through_all_of_it(installation: Units) -> None:
    call = installation.call
    call("gateway", "POST", "/topics", {"name": "orders"})
    subscription = {"name": "billing", "start": "earliest"}
    call("gateway", "POST", "/topics/orders/subscriptions", subscription)
    call("publish", "POST", "/topics/orders/messages:batch", {"messages": [{"data": "one"}]})
    pull = {"max_messages": 1, "wait_seconds": 30}
    (message,) = call("subscribe", "POST", "/subscriptions/billing:pull", pull).json()["messages"]
    acks = {"ack_ids": [message["ack_id"]]}
    call("subscribe", "POST", "/subscriptions/billing/ack", acks)


def test_a_runner_of_exports_runs_beside_it(installation: Units) -> None:
    pytest.importorskip("pyspark", reason="units: Spark is missing (make install)")
    credential = installation.root / "credential.env"
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "packetboat"),
            *("operator", "create", "export-runner", "--permission", "run_exports"),
            *("--credential-file", str(credential)),
        ],
        env=installation.machine.environment(SYSTEM / "packetboat-migrate.service"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lakes = installation.root / "lakes.toml"
    lakes.write_text(LAKES.format(root=installation.root))
    lakes.chmod(0o600)
    told = dict(line.split("=", 1) for line in credential.read_text().splitlines() if "=" in line)
    port = installation.ports["export-runner"]
    installation.machine.configure(
        "export-runner.env",
        {
            **told,
            "PACKETBOAT_URL": f"http://127.0.0.1:{installation.ports['gateway']}",
            "PACKETBOAT_LAKES": str(lakes),
            "PACKETBOAT_RUNNER_METRICS_PORT": port,
        },
    )
    installation.start("packetboat-export-runner", may_compile=True)
    page = installation.until(port, "/metrics").text
    assert "packetboat_export_runner_heard_timestamp_seconds" in page


def test_alerts_ask_for_what_these_processes_tell(installation: Units) -> None:
    servers = map(str, installation.server_metrics.values())
    ports = [*installation.metrics.values(), *servers, installation.ports["export-runner"]]
    pages = "".join(installation.until(port, "/metrics").text for port in ports)
    told = {line.split()[2] for line in pages.splitlines() if line.startswith("# TYPE ")}
    asked = {name for rule in alerts() for name in METRIC.findall(rule["expr"])}
    suffixes = ("", "_bucket", "_sum", "_count")
    known = {name + suffix for name in told for suffix in suffixes}
    assert (asked | named_on_dashboards()) - known == set()


def test_everything_ends_when_it_is_told_to(installation: Units) -> None:
    """Servers are stopped first, as the targets order it."""
    stores = [name for name in installation.running if "store-node" in name]
    for name in [name for name in installation.running if name not in stores] + stores:
        assert installation.stop(name) == 0, f"{name}\n{installation.logs()}"
