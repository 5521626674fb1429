"""The processes of the platform module, nine of them, run with exactly what its manifests say:
their environment, commands, hooks and probes, and the configuration of the balancer."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import requests

from auth.development import token_hash
from harness.balancers import HAProxy, program
from harness.processes import Processes
from harness.seeded_postgres import free_port
from metadata.postgres.embedded import EmbeddedPostgres
from peering.authority import issue, make_authority
from tests.terraform.manifests import COMPONENT, SMALL, Manifests, rendered
from tests.terraform.pods import Addresses, Pod

PATIENCE_S = 180.0
MAX_STARTS = 20
TOKEN = "pb_dev_platform"
POSTGRES = "postgresql://u:p@postgres:5432/db"
CONFIGURATION: dict[str, Any] = {
    **SMALL,
    "store": {"nodes": {str(n): {"zone": zone} for n, zone in enumerate("abc", 1)}},
    "gateway": {"replicas": 1},
    "scheduler": {"replicas": 1},
    "settings": {"PACKETBOAT_DEV_TOKEN_SHA256": token_hash(TOKEN)},
    "backup": {"claim": "vault"},
    "peer_tls": {"mode": "require", "secret": "peers"},
}
ROLES = ("publish", "subscribe", "gateway", "scheduler")
PEER_NAME = "packetboat.packetboat.svc.cluster.local"


@dataclass
class Cluster:
    """The processes that stand in for a cluster."""

    pods: dict[str, Pod]
    migration: Pod
    backup: Pod
    processes: Processes
    root: Path
    database_url: str
    front: str
    """The URL of the balancer; of a gateway, where HAProxy is not installed."""
    balanced: bool

    def until(self, done: Callable[[], bool], what: str) -> None:
        """Wait until `done`; meanwhile start ended pods again, as the kubelet does.

        Servers may start before the schema that they need is there.
        """
        deadline_s = time.monotonic() + PATIENCE_S
        while not done():
            for pod in self.pods.values():
                if pod.has_ended:
                    assert pod.starts < MAX_STARTS, pod.tail()
                    pod.start(self.processes)
            assert time.monotonic() < deadline_s, "\n".join(
                [what, *(pod.tail() for pod in self.pods.values() if not pod.is_ready)]
            )
            time.sleep(0.1)

    def until_ready(self) -> None:
        self.until(lambda: all(pod.is_ready for pod in self.pods.values()), "not ready")


def pods_of(manifests: Manifests) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and template of each pod that would run, without the balancer's."""
    scaled = {
        each["spec"]["scaleTargetRef"]["name"]: each["spec"]["minReplicas"]
        for each in manifests.of_kind("HorizontalPodAutoscaler")
    }
    for each in manifests.of_kind("StatefulSet", "Deployment"):
        name, template = each["metadata"]["name"], each["spec"]["template"]
        if template["metadata"]["labels"][COMPONENT] == "front":
            continue
        count = each["spec"].get("replicas") or scaled[name]
        yield from ((f"{name}-{number}", template) for number in range(count))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    # Not pytest's own directories: nobody but their owner may enter those, and Postgres has to.
    root = Path(tempfile.mkdtemp(prefix="packetboat-platform-"))
    root.chmod(0o711)
    postgres = EmbeddedPostgres(root / "postgres", port=free_port())
    try:
        manifests = rendered(root / "rendered", CONFIGURATION)
        postgres.start()
        with Processes() as processes:
            yield start(manifests, root, postgres.url, processes)
    finally:
        postgres.stop()
        shutil.rmtree(root)


def start(manifests: Manifests, root: Path, database_url: str, processes: Processes) -> Cluster:
    """Start everything at once, the migration too, as after `kubectl apply`."""
    addresses = Addresses()
    names = dict(pods_of(manifests))
    domain = "packetboat-store.packetboat.svc.cluster.local"
    replace = {f"{name}.{domain}": addresses.of(name) for name in names}
    replace[POSTGRES] = database_url
    secrets = {"peers": certificates()}

    def pod(name: str, template: dict[str, Any]) -> Pod:
        return Pod(name, template, manifests, addresses.of(name), root, replace, secrets)

    pods = {name: pod(name, template) for name, template in names.items()}
    migration = pod("migration", manifests.components()["migrate"])
    backup = pod("backup", manifests.components()["backup"])
    for each in (*pods.values(), migration):
        each.start(processes)
    url = pods["packetboat-gateway-0"].url("http")
    balanced = HAProxy.missing() is None
    if balanced:
        url = start_front(manifests, root, addresses.of("front"), pods, processes)
    return Cluster(pods, migration, backup, processes, root, database_url, url, balanced)


def certificates() -> dict[str, bytes]:
    """Return the certificates of all processes, as a Secret has them."""
    authority = make_authority("peers")
    peer = issue(authority, PEER_NAME)
    return {"ca.crt": authority.certificate, "tls.crt": peer.certificate, "tls.key": peer.key}


def start_front(
    manifests: Manifests, root: Path, address: str, pods: dict[str, Pod], processes: Processes
) -> str:
    """Start HAProxy with the manifests' configuration and servers by address; return its URL."""
    files = manifests.get("ConfigMap", "packetboat-front")["data"]
    config = files["haproxy.cfg"]
    for role in ("publish", "subscribe", "gateway"):
        here = [pod for name, pod in pods.items() if name.startswith(f"packetboat-{role}-")]
        lines = [
            f"  server {role}-{number} {pod.address}:8080\n" for number, pod in enumerate(here, 1)
        ]
        pattern = rf"  server-template {role}- \d+ packetboat-{role}\.\S+:8080 .*\n"
        config, count = re.subn(pattern, "".join(lines), config)
        assert count == 1, role
    config = config.replace("bind :", f"bind {address}:").replace("  maxconn 20000\n", "")
    (root / "haproxy/errors").mkdir(parents=True)
    (root / "haproxy/haproxy.cfg").write_text(config)
    for name, text in files.items():
        if name.endswith(".http"):
            (root / "haproxy/errors" / name).write_text(text)
    command = [program("haproxy"), "-W", "-db", "-f", str(root / "haproxy/haproxy.cfg")]
    processes.start(command, log=root / "front.log")
    return f"http://{address}:8080"


@pytest.fixture(scope="module")
def http(cluster: Cluster) -> Iterator[requests.Session]:
    assert cluster.migration.wait(PATIENCE_S) == 0, cluster.migration.tail()
    cluster.until_ready()
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {TOKEN}"
        yield session


def call(http: requests.Session, method: str, url: str, **more: Any) -> requests.Response:
    """Send a request, and again after each 503, as a client does."""
    deadline_s = time.monotonic() + PATIENCE_S
    while (answer := http.request(method, url, timeout=60, **more)).status_code == 503:
        assert time.monotonic() < deadline_s, answer.text
        time.sleep(0.1)
    assert answer.ok, f"{method} {url}: {answer.status_code} {answer.text}"
    return answer


def test_nine_processes_are_ready_with_the_environment_of_their_manifests(
    cluster: Cluster, http: requests.Session
) -> None:
    assert len(cluster.pods) == 9
    assert [name for name, pod in cluster.pods.items() if not pod.is_alive] == []
    for name, pod in cluster.pods.items():
        assert http.get(f"{pod.url('metrics')}/metrics", timeout=30).status_code == 200, name


def test_a_message_goes_through_them(cluster: Cluster, http: requests.Session) -> None:
    if not cluster.balanced:
        pytest.skip("haproxy is missing: apt-get install haproxy")
    send_and_take(cluster, http, "first")
    # Not for the public.
    for path in ("/metrics", "/%6detrics"):
        assert http.get(cluster.front + path, timeout=30).status_code == 404


def send_and_take(cluster: Cluster, http: requests.Session, name: str) -> None:
    """Publish one message, pull it and ack it."""
    url = cluster.front
    call(http, "POST", f"{url}/topics", json={"name": name})
    call(http, "POST", f"{url}/topics/{name}/subscriptions", json={"name": name})
    sent = call(http, "POST", f"{url}/topics/{name}/messages", data=b"hello").json()
    pull = f"{url}/subscriptions/{name}/messages?wait_seconds=20"
    (message,) = call(http, "GET", pull).json()["messages"]
    assert message["message_id"] == sent["message_id"]
    ack = {"ack_ids": [message["ack_id"]]}
    assert call(http, "POST", f"{url}/subscriptions/{name}/ack", json=ack).json()["acked"] == 1


def test_a_backup_is_taken(cluster: Cluster, http: requests.Session) -> None:
    cluster.backup.start(cluster.processes)
    assert cluster.backup.wait(PATIENCE_S) == 0, cluster.backup.tail()


def test_a_new_installation_is_made_of_it(cluster: Cluster, tmp_path: Path) -> None:
    (name,) = (path.parent.name for path in cluster.root.glob("claims/vault/**/manifest.json"))
    configuration = CONFIGURATION | {
        "restore": {"claim": "vault", "name": name},
        "secrets": {"cluster_uid": "b"},
    }
    manifests = rendered(tmp_path / "rendered", configuration)
    url = asyncio.run(new_database(cluster.database_url))
    addresses, secrets = Addresses(), {"peers": certificates()}
    replace = {POSTGRES: url}

    def pod(component: str) -> Pod:
        template = manifests.components()[component]
        name = f"restored-{component}"
        return Pod(name, template, manifests, addresses.of(name), cluster.root, replace, secrets)

    node, job = pod("store"), pod("migrate")
    node.initialise()
    node.initialise()  # As after a restart of the pod: it has what it needs.
    job.start(cluster.processes)
    assert job.wait(PATIENCE_S) == 0, job.tail()
    assert asyncio.run(topics(url)) == asyncio.run(topics(cluster.database_url)) > 0


async def new_database(url: str) -> str:
    """Make an empty database beside that of the URL; return its own URL."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("CREATE DATABASE restored")
    finally:
        await connection.close()
    return f"{url.rpartition('/')[0]}/restored"


async def topics(url: str) -> int:
    """Return the number of topics."""
    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval("SELECT count(*) FROM topics"))
    finally:
        await connection.close()


def test_a_store_node_hands_over_before_it_stops_and_comes_back(
    cluster: Cluster, http: requests.Session
) -> None:
    pod = cluster.pods["packetboat-store-2-0"]
    assert pod.stop() == 0
    pod.start(cluster.processes)
    cluster.until_ready()
    if cluster.balanced:
        send_and_take(cluster, http, "after")


def test_a_server_of_each_role_ends_within_its_grace_when_told_to(
    cluster: Cluster, http: requests.Session
) -> None:
    told = [cluster.pods[f"packetboat-{role}-0"] for role in ROLES]
    with ThreadPoolExecutor(len(told)) as threads:
        codes = list(threads.map(Pod.stop, told))
    assert codes == [0] * len(told), "\n".join(pod.tail() for pod in told)
