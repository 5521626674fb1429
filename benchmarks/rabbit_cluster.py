"""Three RabbitMQ nodes on one host, joined, with an epmd of their own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

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
            self._start_node(index, amqp=ports[index], peers=ports[3 + index])
        for port in ports[:3]:
            wait_until(lambda port=port: listening(port), timeout_s=90, what="RabbitMQ")  # type: ignore[misc]
        self._await_cluster(environment)
        self.urls = ",".join(f"amqp://guest:guest@127.0.0.1:{port}/" for port in ports[:3])

    def _start_node(self, index: int, *, amqp: int, peers: int) -> None:
        node = self._directory / f"n{index}"
        node.mkdir()
        names = "".join(
            f"cluster_formation.classic_config.nodes.{other + 1} = r{other}@localhost\n"
            for other in range(3)
        )
        (node / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{amqp}\n"
            "loopback_users = none\n"
            "cluster_formation.peer_discovery_backend = classic_config\n" + names
        )
        self._nodes.start(
            [BIN / "rabbitmq-server"],
            log=node / "out",
            env={
                **self._environment,
                "RABBITMQ_NODENAME": f"r{index}@localhost",
                "RABBITMQ_NODE_PORT": str(amqp),
                "RABBITMQ_DIST_PORT": str(peers),
                "RABBITMQ_MNESIA_BASE": str(node),
                "RABBITMQ_LOG_BASE": str(node),
                "RABBITMQ_CONFIG_FILE": str(node / "rabbitmq.conf"),
                "RABBITMQ_PID_FILE": str(node / "pid"),
            },
        )

    def _await_cluster(self, environment: dict[str, str]) -> None:
        try:
            joined = subprocess.run(
                [BIN / "rabbitmqctl", "-n", "r0@localhost", "await_online_nodes", "3"],
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
            )
        except subprocess.TimeoutExpired as error:
            raise NotReady("RabbitMQ: the nodes did not join within 60 s") from error
        if joined.returncode != 0:
            raise NotReady(f"RabbitMQ: {(joined.stderr or joined.stdout).strip()[-300:]}")

    def pids(self) -> list[int]:
        """Return the process ids of the nodes, without epmd."""
        return self._nodes.pids()

    def stop(self) -> None:
        """Stop the nodes, then epmd."""
        self._nodes.stop(grace_s=1)  # the data is thrown away: no need to wait for a clean stop
        self._epmd.stop(grace_s=1)
