"""Three NATS JetStream nodes on loopback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

from benchmarks.cache import nats_client, nats_server
from harness.processes import NotReady, Processes, free_ports, listening, wait_until

STREAM = "S"


class NatsCluster:
    """A NATS cluster; `always` syncs each write before it is confirmed, the default every two
    minutes.
    """

    peer = "nats"
    names = ("NATS R3, sync always", "NATS R3, default (no sync)")

    def __init__(self, directory: Path, *, always: bool) -> None:
        self._directory = directory
        self._always = always
        self._processes = Processes()
        self._binary = Path()
        self._nodes: dict[str, int] = {}
        self._killed = ""
        self.urls = ""
        self.name = self.names[0 if always else 1]

    def start(self) -> None:
        """Raises NotReady with the reason."""
        self._binary = nats_server()
        ports = free_ports(6)
        clients, routes = ports[:3], ports[3:]
        sync = ", sync_interval: always" if self._always else ""
        peers = ", ".join(f"nats://127.0.0.1:{port}" for port in routes)
        for index in range(3):
            store = self._directory / f"n{index}"
            store.mkdir(parents=True)
            config = store / "nats.conf"
            config.write_text(
                f"server_name: n{index}\n"
                f"listen: 127.0.0.1:{clients[index]}\n"
                f'jetstream {{ store_dir: "{store}", max_file_store: 20G{sync} }}\n'
                f"cluster {{ name: c1, listen: 127.0.0.1:{routes[index]}, routes: [{peers}] }}\n"
            )
            self._start_node(f"n{index}")
        for port in clients:
            wait_until(lambda port=port: listening(port), timeout_s=20, what="NATS")  # type: ignore[misc]
        if len(self._processes.pids()) != 3:
            raise NotReady(f"NATS: a node ended at once, see {self._directory}")
        self.urls = ",".join(f"nats://127.0.0.1:{port}" for port in clients)

    def _start_node(self, name: str) -> None:
        store = self._directory / name
        command = [self._binary, "-c", store / "nats.conf"]
        self._nodes[name] = self._processes.start(command, log=store / "log").pid

    def await_leader(self) -> None:
        """Wait until the nodes have chosen who makes streams. Raises NotReady."""
        wait_until(
            lambda: self._ask("stream", "ls", "--names").returncode == 0,
            timeout_s=60,
            what="JetStream",
        )

    def _ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(nats_client()), "--no-context", "--server", self.urls, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=20)

    def kill_leader(self) -> None:
        """Kill the leader of the stream of `peer_load` with SIGKILL. Raises NotReady."""
        run = self._ask("stream", "info", STREAM, "--json")
        if run.returncode != 0:
            raise NotReady(f"NATS: {run.stderr.strip()[-300:]}")
        self._killed = json.loads(run.stdout)["cluster"]["leader"]
        os.kill(self._nodes[self._killed], signal.SIGKILL)

    def start_killed(self) -> None:
        """Start the killed node again."""
        self._start_node(self._killed)

    def pids(self) -> list[int]:
        """Return the process ids of the nodes."""
        return self._processes.pids()

    def stop(self) -> None:
        """Stop all nodes."""
        self._processes.stop(grace_s=5)
