"""The container image, really built and run: minutes, root, and Debian's buildah and debootstrap.

    make image-test

It is built on a Debian made here, and run by `chroot` in namespaces of its own: as nobody, without
capabilities, as process 1, with a root that is read-only.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import requests
from packetboat import Client, Options
from packetboat.credentials import StaticToken

from auth.development import token_hash
from harness.processes import free_ports
from tests.deploy.debian import certificates, make_debian, missing
from tests.deploy.unit_files import environment_file

ROOT = Path(__file__).parents[2]
NEEDED = ("buildah", "unshare", "setpriv")
BUILD_S = 3600.0
START_S = 120.0
STOP_S = 60.0
ACCOUNT = 10001
CHROOT = shutil.which("chroot", path="/usr/sbin:/usr/bin:/sbin:/bin") or "chroot"
"""The PATH of the image is not that of root."""


class Builder:
    """buildah, with a storage of its own."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def run(self, *arguments: str | Path) -> str:
        """Run buildah; return its output without its progress."""
        storage = ("--root", self._root / "storage", "--runroot", self._root / "run")
        done = subprocess.run(
            ["buildah", *storage, "--storage-driver", "vfs", *arguments],
            env=os.environ | {"BUILDAH_ISOLATION": "chroot"},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            timeout=BUILD_S,
            check=True,
        )
        return done.stdout.strip()

    def base(self) -> str:
        """Make an image of a Debian 12 and nothing more; return its name."""
        tree = self._root / "debian"
        make_debian(tree)
        container = self.run("from", "scratch")
        self.run("copy", container, tree, "/")
        self.run("commit", container, "localhost/packetboat-test-base")
        return "localhost/packetboat-test-base"

    def build(self, base: str, target: str, *volumes: str) -> str:
        more = [part for volume in volumes for part in ("--volume", volume)]
        file = ("--format", "docker", "--file", "deploy/container/Dockerfile", "--target", target)
        name = f"localhost/packetboat-test-{target}"
        self.run("bud", "--quiet", *more, *file, "--build-arg", f"BASE={base}", "--tag", name, ".")
        return name


class Image:
    """A built image: its configuration, and its files in a folder."""

    def __init__(self, builder: Builder, name: str) -> None:
        self.config = json.loads(builder.run("inspect", "--type", "image", name))["Docker"][
            "config"
        ]
        self.files = Path(builder.run("mount", builder.run("from", name)))
        self.environment = dict(each.split("=", 1) for each in self.config["Env"])


class Container:
    """One process of the image, that is process 1 in a read-only root of its own. `volume`: what is
    writable beside /tmp."""

    def __init__(
        self, image: Image, volume: Path, command: list[str], environment: dict[str, str], log: Path
    ) -> None:
        files = image.files
        prepare = "; ".join(
            (
                "set -e",
                f"echo 127.0.0.1 localhost >{files}/etc/hosts",  # as engines do
                f"mount --bind {files} {files}",
                f"mount -o remount,bind,ro {files}",
                f"mount --bind {volume} {files}/var/lib/packetboat",
                f"mount -t tmpfs tmpfs {files}/tmp",
                f"mount -t proc proc {files}/proc",
                f"mount --bind /dev {files}/dev",
                f"exec {CHROOT} {files} setpriv --reuid={ACCOUNT} --regid={ACCOUNT} --clear-groups "
                '--no-new-privs --bounding-set=-all --inh-caps=-all "$@"',
            )
        )
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [
                    *("unshare", "--mount", "--pid", "--fork", "--kill-child"),
                    *("sh", "-c", prepare, "sh"),
                    *image.config["Entrypoint"],
                    *command,
                ],
                env=image.environment | environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        self.log = log

    @property
    def first(self) -> int:
        """Process 1 of it, as seen from outside; 0 as long as there is none."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return int((children.read_text().split() or ["0"])[0])

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def finish(self) -> None:
        """Wait for a container that ends by itself; its exit status must be 0."""
        assert self._process.wait(START_S) == 0, self.log.read_text()

    def stop(self) -> int:
        """Send SIGTERM to process 1; return its exit status."""
        os.kill(self.first, signal.SIGTERM)
        return self._process.wait(STOP_S)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


Build = Callable[[str], Image]


@pytest.fixture(scope="module")
def build() -> Iterator[Build]:
    """Makes the image of a stage."""
    if lacking := missing(*NEEDED):
        names = ", ".join(lacking)
        pytest.skip(f"image: {names} missing (Debian: apt-get install buildah debootstrap; root)")
    root = Path(tempfile.mkdtemp(prefix="packetboat-image-"))
    builder = Builder(root)
    try:
        base = builder.base()
        yield lambda target: Image(builder, builder.build(base, target, *_pip_settings(root)))
    finally:
        # Mounted containers cannot be removed.
        builder.run("umount", "--all")
        builder.run("rm", "--all")
        shutil.rmtree(root)


@pytest.fixture(scope="module")
def image(build: Build) -> Image:
    return build("server")


@pytest.fixture(scope="module")
def image_with_spark(build: Build) -> Image:
    return build("exports")


def _pip_settings(root: Path) -> Iterator[str]:
    """Yield mounts that give the build the certificates of this machine's pip, if it has some."""
    if (found := certificates()) is not None:
        settings = root / "pip.conf"
        settings.write_text("[global]\ncert=/run/certificates.pem\n")
        yield f"{found}:/run/certificates.pem:ro"
        yield f"{settings}:/etc/pip.conf:ro"


class Node:
    """A store of one node: the smallest thing that serves."""

    def __init__(self, image: Image, root: Path) -> None:
        self.volume = root / "volume"
        self.volume.mkdir()
        os.chown(self.volume, ACCOUNT, ACCOUNT)
        port, metrics = free_ports(2)
        self.metrics = metrics
        self.environment = {
            "PACKETBOAT_STORE_NODE_ID": "1",
            "PACKETBOAT_STORE_NODES": f"1=127.0.0.1:{port}",
            "PACKETBOAT_CLUSTER_UID": secrets.token_hex(16),
            "PACKETBOAT_STORE_SECRET": secrets.token_hex(32),
            "PACKETBOAT_STORE_METRICS_PORT": str(metrics),
        }
        log = root / "log"
        self.container = Container(image, self.volume, ["store-node"], self.environment, log)

    def until_ready(self) -> None:
        until_ready(self.container, self.metrics)


def until_ready(container: Container, port: int) -> None:
    deadline_s = time.monotonic() + START_S
    while time.monotonic() < deadline_s:
        with suppress(requests.RequestException):
            if requests.get(f"http://127.0.0.1:{port}/readyz", timeout=10).ok:
                return
        if container.ended:
            break
        time.sleep(0.1)
    raise AssertionError(container.log.read_text())


@pytest.fixture
def node(image: Image, tmp_path: Path) -> Iterator[Node]:
    node = Node(image, tmp_path)
    try:
        node.until_ready()
        yield node
    finally:
        node.container.kill()


def test_it_is_nobody(image: Image) -> None:
    assert image.config["User"] == f"{ACCOUNT}:{ACCOUNT}"
    assert image.config["Healthcheck"]["Test"][0] == "CMD"


def test_nothing_of_the_checkout_is_in_it_but_the_product(image: Image) -> None:
    found = {path.name for path in (image.files / "opt").iterdir()}
    assert found == {"container", "packetboat"}
    libraries = next((image.files / "opt/packetboat/lib").glob("python3*/site-packages"))
    names = {path.name for path in libraries.iterdir()}
    assert {"gateway", "store_nodes", "packetboat"} <= names
    assert names.isdisjoint({"tests", "benchmarks", "harness", "pytest", "moto", "pyspark"})


def test_a_store_node_runs_in_it_and_leaves_a_checkpoint(node: Node) -> None:
    told = Path(f"/proc/{node.container.first}/status").read_text()
    status = dict(line.split(":\t", 1) for line in told.splitlines() if ":\t" in line)
    assert status["Uid"].split() == [str(ACCOUNT)] * 4
    assert status["CapEff"].strip("0\n") == ""
    assert status["NSpid"].split()[-1] == "1"
    assert node.container.stop() == 0, node.container.log.read_text()
    assert list((node.volume / "store/checkpoints").iterdir())


def test_its_health_is_that_of_its_process(image: Image, node: Node) -> None:
    program = [*image.config["Healthcheck"]["Test"][1:]]
    command = [CHROOT, str(image.files), *program]
    environment = image.environment | node.environment
    assert subprocess.run(command, env=environment, timeout=60, check=False).returncode == 0
    node.container.stop()
    assert subprocess.run(command, env=environment, timeout=60, check=False).returncode == 1


def test_it_can_be_stopped_before_it_serves(image: Image, tmp_path: Path) -> None:
    """A command without handlers of its own, which waits for a Postgres that takes connections and
    says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://nobody@127.0.0.1:{silent.getsockname()[1]}/none"
        volume = tmp_path / "volume"
        volume.mkdir()
        environment = {"PACKETBOAT_DATABASE_URL": url}
        container = Container(image, volume, ["migrate"], environment, tmp_path / "log")
        try:
            silent.settimeout(START_S)
            connection, _ = silent.accept()
            with connection:
                assert container.stop() == 128 + signal.SIGTERM
        finally:
            container.kill()


LAKES = """
[[lakes]]
name = "default"
warehouse = "/var/lib/packetboat/lake"
spark_master = "local[2]"

[lakes.catalog]
type = "sql"
uri = "sqlite:////var/lib/packetboat/catalog.db"
"""


class Started:
    """Containers, each with a volume of its own, until the stack ends."""

    def __init__(self, stack: ExitStack, root: Path) -> None:
        self._stack = stack
        self._root = root

    def volume(self, name: str) -> Path:
        path = self._root / name
        path.mkdir(exist_ok=True)
        os.chown(path, ACCOUNT, ACCOUNT)
        return path

    def start(self, image: Image, name: str, *command: str, **environment: str) -> Container:
        log = self._root / f"{name}.log"
        container = Container(image, self.volume(name), [*command], environment, log)
        self._stack.callback(container.kill)
        return container


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    with ExitStack() as stack:
        yield Started(stack, tmp_path)


def test_the_image_with_spark_exports(
    image_with_spark: Image, node: Node, database_url: str, started: Started
) -> None:
    """The runner has an account without rights and a read-only root; a server runs beside it."""
    token = f"pbdev_{secrets.token_hex(16)}"
    port, metrics = map(str, free_ports(2))
    settings = {
        "PACKETBOAT_DATABASE_URL": database_url,
        "PACKETBOAT_STORE_NODES": node.environment["PACKETBOAT_STORE_NODES"],
        "PACKETBOAT_STORE_SECRET": node.environment["PACKETBOAT_STORE_SECRET"],
        "PACKETBOAT_ACK_SECRET": secrets.token_hex(32),
        "PACKETBOAT_SEAL_KEYS": f"a:{secrets.token_hex(32)}",
        "PACKETBOAT_DEV_TOKEN_SHA256": token_hash(token),
        "PACKETBOAT_EXPORT_LAKES": "default",
        "PACKETBOAT_PORT": port,
    }
    volume = started.volume("runner")
    made = ("operator", "create", "runner", "--permission", "run_exports", "--credential-file")
    file = "/var/lib/packetboat/credential.env"
    started.start(image_with_spark, "runner", *made, file, **settings).finish()
    server = started.start(image_with_spark, "server", "serve", "--role", "all", **settings)
    until_ready(server, int(port))
    (volume / "lakes.toml").write_text(LAKES)
    (volume / "lakes.toml").chmod(0o600)
    os.chown(volume / "lakes.toml", ACCOUNT, ACCOUNT)
    own = environment_file(volume / "credential.env") | {
        "PACKETBOAT_URL": f"http://127.0.0.1:{port}",
        "PACKETBOAT_LAKES": "/var/lib/packetboat/lakes.toml",
        "PACKETBOAT_RUNNER_METRICS_PORT": metrics,
    }
    runner = started.start(image_with_spark, "runner", "export-runner", **own)
    options = Options(
        urls=(own["PACKETBOAT_URL"],), credentials=StaticToken(token), trust_env=False
    )
    with Client.from_options(options) as client:
        client.topics.create("sales", retention={"mode": "retain"})
        for number in range(10):
            client.publish("sales", json.dumps({"number": number})).result()
        client.exports.create("sales", "sales")
        run = client.exports.run("sales").wait(timeout_s=BUILD_S)
        assert (run.state, client.exports.get("sales").rows) == ("succeeded", 10), (
            runner.log.read_text()
        )
    assert list((volume / "lake").rglob("*.parquet"))
    assert runner.stop() == 0, runner.log.read_text()
    assert server.stop() == 0, server.log.read_text()
