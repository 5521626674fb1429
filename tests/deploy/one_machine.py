"""The whole installation on one machine with systemd, set up by the blocks of
docs/operations/systemd.md as they stand there."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from pathlib import Path

from auth.development import token_hash
from tests.deploy.booted import Booted
from tests.deploy.debian import CERTIFICATES, certificates, make_debian
from tests.deploy.unit_files import environment_file
from tests.e2e.test_operations_docs import blocks

ROOT = Path(__file__).parents[2]
PAGE = "systemd.md"
CHECKOUT = "/srv/packetboat"
PACKAGES = ("systemd", "systemd-sysv", "dbus", "python3-venv", "ca-certificates", "postgresql")
NODES = ("1", "2", "3")
METRICS = {"1": 9101, "2": 9111, "3": 9121}
PUBLISH, SUBSCRIBE, GATEWAY, SCHEDULER = (8081, 8091), (8082, 8092), 8083, 8084
"""The first ones are those of the page."""
SERVERS = (
    *(f"packetboat-publish@{port}" for port in PUBLISH),
    *(f"packetboat-subscribe@{port}" for port in SUBSCRIBE),
    f"packetboat-gateway@{GATEWAY}",
    f"packetboat-scheduler@{SCHEDULER}",
)
STORE_NODES = tuple(f"packetboat-store-node@{node}" for node in NODES)
PASSWORD = "of-this-test"
LOGIN = f"packetboat:{PASSWORD}@127.0.0.1:5432"
READY = "timeout 300 sh -c 'until curl -fs http://127.0.0.1:{}/readyz; do sleep 0.2; done'"
LAKES = f"""
[[lakes]]
name = "default"
warehouse = "/var/lib/packetboat/export-runner/lake"
spark_master = "local[2]"

[lakes.catalog]
type = "sql"
uri = "postgresql+psycopg://{LOGIN}/lake"
"""
DATABASE = f"""
runuser -u postgres -- psql -v ON_ERROR_STOP=1 <<'SQL'
CREATE ROLE packetboat LOGIN CREATEROLE PASSWORD '{PASSWORD}';
CREATE DATABASE packetboat OWNER packetboat TEMPLATE template0 ENCODING 'UTF8';
CREATE DATABASE lake OWNER packetboat TEMPLATE template0 ENCODING 'UTF8';
SQL
"""


class OneMachine:
    """`tree`: where its files are. Use `make`, and `machine` for what goes beyond its methods."""

    def __init__(self, tree: Path) -> None:
        shown = {CHECKOUT: ROOT}
        if (found := certificates()) is not None:
            shown[CERTIFICATES] = found
        self.tree = tree
        self.machine = Booted(tree, shown)
        self.token = f"pbdev_{secrets.token_hex(16)}"
        self.urls = {
            "publish": [f"http://127.0.0.1:{port}" for port in PUBLISH],
            "subscribe": [f"http://127.0.0.1:{port}" for port in SUBSCRIBE],
            "gateway": [f"http://127.0.0.1:{GATEWAY}"],
        }

    def make(self) -> None:
        """Returns when all of it is ready."""
        make_debian(self.tree, *PACKAGES, "curl")
        (self.tree / "etc/hostname").write_text("store-1\n")
        (self.tree / "etc/hosts").write_text("127.0.0.1 localhost\n127.0.1.1 store-1\n")
        self.machine.start()
        self.install()
        self.page("Settings", 0)
        self._configure()
        self.machine.run(DATABASE)
        self._start()

    def install(self) -> None:
        """Install this checkout; a second call installs it again, as another version."""
        environment = {"PIP_CERT": CERTIFICATES} if certificates() else {}
        (install,) = blocks(PAGE, "Install")
        install = install.replace(
            "install.py /opt/packetboat", "install.py /opt/packetboat --exports"
        )
        self.machine.run(f"cd {CHECKOUT}\n{install}", outside=True, **environment)

    def page(self, section: str, at: int, **replaced: str) -> str:
        """Runs one of its blocks; `replaced`: what stands for what else."""
        block = blocks(PAGE, section)[at]
        for old, new in replaced.items():
            block = block.replace(old, new)
        return self.machine.run(f"cd {CHECKOUT}\n{block}")

    def _configure(self) -> None:
        secret = secrets.token_hex(32)
        ports = {"1": 9001, "2": 9002, "3": 9003}
        nodes = ",".join(f"{node}=127.0.0.1:{port}@zone-{node}" for node, port in ports.items())
        self.configure("packetboat.env", {"PACKETBOAT_STORE_NODES": nodes})
        uid = {"PACKETBOAT_CLUSTER_UID": secrets.token_hex(16)}
        self.configure("store.env", {"PACKETBOAT_STORE_SECRET": secret} | uid)
        for node, port in METRICS.items():
            own = {"PACKETBOAT_STORE_METRICS_PORT": str(port)}
            self.configure(f"store-node-{node}.env", own)
        self.configure(
            "server.env",
            {
                "PACKETBOAT_DATABASE_URL": f"postgresql://{LOGIN}/packetboat",
                "PACKETBOAT_EXPORT_LAKES": "default",
                "PACKETBOAT_STORE_SECRET": secret,
                "PACKETBOAT_ACK_SECRET": secrets.token_hex(32),
                "PACKETBOAT_SEAL_KEYS": f"a:{secrets.token_hex(32)}",
                "PACKETBOAT_DEV_TOKEN_SHA256": token_hash(self.token),
            },
        )

    def configure(self, name: str, changed: Mapping[str, str]) -> None:
        """Write an environment file; keep the variables that are there already."""
        path = self.tree / "etc/packetboat" / name
        values = environment_file(path) if path.exists() else {}
        lines = [f"{variable}={value}\n" for variable, value in (values | dict(changed)).items()]
        path.write_text("".join(lines), encoding="utf-8")
        path.chmod(0o600)

    def _start(self) -> None:
        self.page("Start", 0)
        for node in NODES:
            self.page("Start", 1, **{"node@1": f"node@{node}"})
        self.page("Start", 2)
        self.page("Start", 3)
        more = f"packetboat-publish@{PUBLISH[1]} packetboat-subscribe@{SUBSCRIBE[1]}"
        self.machine.run(f"systemctl enable --now {more}")
        self.until_ready()

    def start_runner(self, url: str) -> None:
        """Start a runner of exports, with a credential of its own.

        `url` is that of the balancer, for the runner reads, too.
        """
        file = "/var/lib/packetboat/credential.env"
        permission = f"--permission run_exports --credential-file {file}"
        self.shell(f"packetboat operator create export-runner {permission}")
        (self.tree / "etc/packetboat/lakes.toml").write_text(LAKES)
        self.machine.run(
            "cd /etc/packetboat && chmod 0640 lakes.toml && chgrp packetboat lakes.toml"
        )
        credential = environment_file(self.tree / file[1:])
        self.configure("export-runner.env", credential | {"PACKETBOAT_URL": url})
        self.page("Start", 4)

    def until_ready(self) -> None:
        """Wait until all processes are ready; raises CalledProcessError if that takes minutes."""
        for port in (*METRICS.values(), *PUBLISH, *SUBSCRIBE, GATEWAY, SCHEDULER):
            self.machine.run(READY.format(port))

    def shell(self, script: str) -> str:
        """Runs it in the shell that the page makes."""
        (prelude,) = blocks(PAGE, "A shell to work in")
        return self.machine.run(f"{prelude}\n{script}")

    def show(self, unit: str, *names: str) -> dict[str, str]:
        """Return the properties of a unit that systemd knows."""
        asked = " ".join(f"--property={name}" for name in names)
        said = self.machine.run(f"systemctl show {asked} '{unit}'")
        return dict(line.split("=", 1) for line in said.splitlines())

    def journal(self, unit: str, since: str = "") -> list[str]:
        """Return the lines that the unit's processes wrote, without systemd's own."""
        since = f"--since='{since}'" if since else ""
        # `_COMM`… of systemd's own lines are those of process 1.
        command = f"journalctl --no-pager --output=json {since} --unit='{unit}'"
        entries = map(json.loads, self.machine.run(command).splitlines())
        return [each["MESSAGE"] for each in entries if each.get("_TRANSPORT") == "stdout"]
