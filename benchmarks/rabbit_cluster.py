"""Three RabbitMQ nodes on one host, joined, with an epmd of their own."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

from harness.measure import tree
from harness.processes import NotReady, Processes, free_ports, listening, wait_until
from harness.settings import inherited_environment

BIN = Path("/usr/lib/rabbitmq/bin")


class RabbitCluster:
    """Quorum queues. Erlang's busy waiting is off, or idle nodes would eat the others' cores."""

    peer = "rabbit"
    name = "RabbitMQ quorum queue"

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._nodes = Processes()
        self._epmd = Processes()
        self._environment: dict[str, str] = {}
        self._ports: list[int] = []
        self._running: dict[int, int] = {}
        self._killed = 0
        self.urls = ""

    def start(self) -> None:
        """Raises NotReady with the reason."""
        if not (BIN / "rabbitmq-server").exists() or not shutil.which("epmd"):
            raise NotReady("RabbitMQ: not installed (apt-get install rabbitmq-server)")
        home = self._directory
        home.mkdir(parents=True)
        cookie = home / ".erlang.cookie"
        cookie.write_text("benchmarkcookie")
        cookie.chmod(0o400)
        (home / "plugins").write_text("[].")
        epmd, *ports = free_ports(7)
        self._ports = ports
        self._environment = {
            "HOME": str(home),
            "ERL_EPMD_PORT": str(epmd),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+sbwt none +sbwtdcpu none +sbwtdio none",
        }
        environment = inherited_environment(**self._environment)
        self._epmd.start(["epmd", "-port", str(epmd)], log=home / "epmd.log", env=environment)
        wait_until(lambda: listening(epmd), timeout_s=10, what="epmd")
        for index in range(3):
            self._configure(index)
            self._start_node(index)
        for port in ports[:3]:
            wait_until(lambda port=port: listening(port), timeout_s=90, what="RabbitMQ")  # type: ignore[misc]
        self._await_cluster()
        self.urls = ",".join(f"amqp://guest:guest@127.0.0.1:{port}/" for port in ports[:3])

    def _configure(self, index: int) -> None:
        node = self._directory / f"n{index}"
        node.mkdir()
        names = "".join(
            f"cluster_formation.classic_config.nodes.{other + 1} = r{other}@localhost\n"
            for other in range(3)
        )
        (node / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self._ports[index]}\n"
            "loopback_users = none\n"
            "cluster_formation.peer_discovery_backend = classic_config\n" + names
        )

    def _start_node(self, index: int) -> None:
        node = self._directory / f"n{index}"
        process = self._nodes.start(
            [BIN / "rabbitmq-server"],
            log=node / "out",
            env={
                **self._environment,
                "RABBITMQ_NODENAME": f"r{index}@localhost",
                "RABBITMQ_NODE_PORT": str(self._ports[index]),
                "RABBITMQ_DIST_PORT": str(self._ports[3 + index]),
                "RABBITMQ_MNESIA_BASE": str(node),
                "RABBITMQ_LOG_BASE": str(node),
                "RABBITMQ_CONFIG_FILE": str(node / "rabbitmq.conf"),
                "RABBITMQ_PID_FILE": str(node / "pid"),
            },
        )
        self._running[index] = process.pid

    def _await_cluster(self) -> None:
        try:
            self._ctl("await_online_nodes", "3", timeout_s=60)
        except subprocess.TimeoutExpired as error:
            raise NotReady("RabbitMQ: the nodes did not join within 60 s") from error

    def _ctl(self, *arguments: str, timeout_s: float = 20, node: int = 0) -> str:
        done = subprocess.run(
            [BIN / "rabbitmqctl", "--quiet", "-n", f"r{node}@localhost", *arguments],
            env=inherited_environment(**self._environment),
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        if done.returncode != 0:
            raise NotReady(f"RabbitMQ: {(done.stderr or done.stdout).strip()[-300:]}")
        return done.stdout

    def kill_leader(self) -> None:
        """Kill the node that leads the queue of `peer_load`, with all its processes."""
        told = self._ctl("list_queues", "name", "leader")
        leader = re.search(r"^q\s+r(\d)@", told, re.MULTILINE)
        if leader is None:
            raise NotReady(f"RabbitMQ: no leader: {told[-300:]}")
        self._killed = int(leader[1])
        for pid in tree([self._running[self._killed]]):
            os.kill(pid, signal.SIGKILL)

    def start_killed(self) -> None:
        """Start the killed node again, and wait until it has joined."""
        self._start_node(self._killed)
        self._await_cluster()

    def pids(self) -> list[int]:
        """Return the process ids of the nodes, without epmd."""
        return self._nodes.pids()

    def stop(self) -> None:
        """Stop the nodes, then epmd."""
        self._nodes.stop(grace_s=1)  # the data is thrown away: no need to wait for a clean stop
        self._epmd.stop(grace_s=1)
