"""The installation under attack: a real `packetboat up` whose processes are measured, two tenants
of it, and what there is to read of its processes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from gateway.up.child import die_with
from peering.settings import PeerTlsMode
from tests import inside
from tests.abuse import probe
from tests.abuse.connections import Attack
from tests.abuse.handshakes import begun, silent, without_certificate
from tests.abuse.witness import Seen
from tests.e2e.installation import Installation
from tests.security.tenants import Actor, Victim, new_tenant
from tests.unit.peering.peer_certificates import Certificates

PROBED = Path(__file__).with_name("probed.py")
ROOT = Path(__file__).parents[2]


class Site:
    """Use `running`."""

    def __init__(self, directory: Path) -> None:
        self.installation = Installation(directory / "data")
        self._probes = inside.watch(self.installation, PROBED)
        self.attacks_nodes = False
        """Whether memory and descriptors are those of the store nodes, and not of the server."""
        self.certificates = Certificates(directory / "peers")
        self.installation.settings |= {
            "PACKETBOAT_HTTP2": "1",  # Off by default; attacks on it are attacks all the same.
            # Ports of peers answer TLS as well; the installation's own links have none.
            **self.certificates.environment(PeerTlsMode.ACCEPT),
        }

    def open(self) -> None:
        """Makes the tenants, and starts the witness."""
        parts = urlsplit(self.installation.url)
        assert parts.hostname is not None
        assert parts.port is not None
        self.address = parts.hostname, parts.port
        ports = json.loads((self.installation.directory / "state.json").read_text())["ports"]
        self.store_address = parts.hostname, int(ports["store"][0])
        self.server = self._pid(" serve")
        self.nodes = [
            pid for pid, line in self.installation.processes().items() if " store-node" in line
        ]
        self.witness = new_tenant(self.installation)[1]
        self.witness.post("/topics", 201, name="seen", partitions=1)
        self.witness.post("/topics/seen/subscriptions", 201, name="seen", start="earliest")
        self.renew()
        command = [sys.executable, "-m", "tests.abuse.witness", self.installation.url]
        self._witness = subprocess.Popen(
            [*command, str(self.witness.token), "seen"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            preexec_fn=die_with(os.getpid()),
        )

    def renew(self) -> None:
        """Another tenant attacks from now on: it has one of everything."""
        self.attacker = Victim(self.installation)

    @property
    def owner(self) -> Actor:
        """The owner of the tenant that attacks."""
        return self.attacker.owner

    def handshakes(self) -> dict[str, Attack]:
        """Return the attacks on a port of a store node that speaks TLS."""
        kinds = (self.certificates.tls(PeerTlsMode.PREFER).dialing(), without_certificate())
        return {
            "store port: TLS handshakes begun": begun,
            "store port: silence after TLS": partial(silent, kinds=kinds),
        }

    def measured(self) -> probe.Snapshot:
        """Return the measures of the server since the last call."""
        return probe.read(self._probes, self.server)

    def of_nodes(self) -> list[probe.Snapshot]:
        """Return the measures of each store node since the last call."""
        return [probe.read(self._probes, pid) for pid in self.nodes]

    def seen(self) -> Seen:
        """Return the observations of the witness since the last call."""
        assert self._witness.stdin is not None
        assert self._witness.stdout is not None
        self._witness.stdin.write(b"\n")
        self._witness.stdin.flush()
        return msgspec.json.decode(self._witness.stdout.readline(), type=Seen)

    def memory_mib(self) -> float:
        """Return the memory that the attacked processes have now."""
        return sum(_status(pid, "VmRSS") for pid in self._attacked()) / 1024

    def peak_mib(self) -> float:
        """Return the most memory that the attacked processes had since `forget_peak`."""
        return sum(_status(pid, "VmHWM") for pid in self._attacked()) / 1024

    def forget_peak(self) -> None:
        for pid in self._attacked():
            Path(f"/proc/{pid}/clear_refs").write_text("5")

    def descriptors(self) -> int:
        return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in self._attacked())

    def _attacked(self) -> list[int]:
        return self.nodes if self.attacks_nodes else [self.server]

    def log_bytes(self) -> int:
        """Return the size of the server's log."""
        return (self.installation.directory / "logs" / "server.log").stat().st_size

    def same_server(self) -> bool:
        """Return whether the server still is the process that it was at first."""
        return Path(f"/proc/{self.server}").exists()

    def close(self) -> None:
        assert self._witness.stdin is not None
        self._witness.stdin.close()
        self._witness.wait()

    def _pid(self, command: str) -> int:
        (pid,) = (p for p, line in self.installation.processes().items() if command in line)
        return pid


def _status(pid: int, name: str) -> int:
    """Return a number of KiB from the status of a process."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1])


@contextmanager
def running(settings: dict[str, str] | None = None) -> Iterator[Site]:
    """Run an installation within the block; remove all of it afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="packetboat-abuse-"))
    directory.chmod(0o711)  # Postgres runs as a lesser account when we are root.
    site = Site(directory)
    site.installation.settings |= settings or {}
    try:
        with site.installation.started():
            site.open()
            try:
                yield site
            finally:
                site.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
