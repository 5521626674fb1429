"""Three Kafka nodes on loopback, each a broker and a controller."""

from __future__ import annotations

import base64
import os
import re
import secrets
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from benchmarks.cache import kafka_class_path
from harness.processes import NotReady, Processes, free_ports, listening, wait_until

HEAP = ("-Xms512m", "-Xmx512m", "-XX:+UseG1GC")
PARTITIONS = 4
LOAD_AT_MOST_S = 60.0


class KafkaCluster:
    """Topics have three replicas, of which two must have a message before it is confirmed."""

    name = "Kafka R3"

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes = Processes()
        self._nodes: dict[int, int] = {}
        self._class_path = ""
        self.urls = ""

    def start(self) -> None:
        """Raises NotReady with the reason."""
        self._class_path = kafka_class_path()
        ports = free_ports(6)
        cluster = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        voters = ",".join(f"{i + 1}@127.0.0.1:{ports[3 + i]}" for i in range(3))
        for index in range(3):
            self._format(index + 1, ports[index], ports[3 + index], voters, cluster)
        for node in (1, 2, 3):
            self.start_node(node)
        for port in ports[:3]:
            wait_until(lambda port=port: listening(port), timeout_s=60, what="Kafka")  # type: ignore[misc]
        self.urls = ",".join(f"127.0.0.1:{port}" for port in ports[:3])
        self.tool("BrokerApiVersionsCommand")

    def _format(self, node: int, port: int, controller: int, voters: str, cluster: str) -> None:
        home = self._directory / f"n{node}"
        home.mkdir(parents=True)
        config = home / "server.properties"
        config.write_text(
            "process.roles=broker,controller\n"
            f"node.id={node}\n"
            f"controller.quorum.voters={voters}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n"
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n"
            "controller.listener.names=CONTROLLER\n"
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
            f"log.dirs={home}/log\n"
            "default.replication.factor=3\n"
            "min.insync.replicas=2\n"
            "offsets.topic.replication.factor=3\n"
            "offsets.topic.num.partitions=3\n"
            "group.initial.rebalance.delay.ms=0\n"
            "auto.create.topics.enable=false\n"
        )
        self._run("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(config))

    def start_node(self, node: int) -> None:
        """Start a node that does not run."""
        home = self._directory / f"n{node}"
        command = ["java", *HEAP, "-cp", self._class_path, "kafka.Kafka"]
        process = self._processes.start([*command, home / "server.properties"], log=home / "out")
        self._nodes[node] = process.pid

    def create_topic(self, name: str, **settings: object) -> None:
        """Create a topic; the names of settings have `_` for a point. Raises NotReady."""
        more = [
            part
            for key, value in settings.items()
            for part in ("--config", f"{key.replace('_', '.')}={value}")
        ]
        self.tool("TopicCommand", "--create", "--topic", name, "--partitions", PARTITIONS, *more)

    def tool(self, name: str, *arguments: object, timeout_s: float = 60) -> str:
        """Run one of Kafka's tools to its end, and return its output. Raises NotReady."""
        given = ["--bootstrap-server", self.urls, *map(str, arguments)]
        return self._run(f"org.apache.kafka.tools.{name}", *given, timeout_s=timeout_s)

    def _command(self, main: str) -> list[str]:
        """Return the beginning of a command that runs a class, or a file of source code."""
        return ["java", "-Xmx512m", "-cp", self._class_path, main]

    def _run(self, main: str, *arguments: str, timeout_s: float = 60) -> str:
        command = [*self._command(main), *arguments]
        run = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
        if run.returncode != 0:
            told = (run.stderr + run.stdout).strip()
            raise NotReady(f"Kafka: {main.rpartition('.')[2]}: {told[-400:]}")
        return run.stdout

    def load(
        self,
        topic: str,
        per_second: float,
        seconds: float,
        consumers: int,
        begin: Callable[[], None] | None = None,
    ) -> str:
        """Run the load at a steady rate, and return the object that it prints.

        `begin` is called when the first message is sent. Raises NotReady.
        """
        program = str(Path(__file__).parent / "KafkaLoad.java")
        command = [*self._command(program), self.urls, topic]
        command += [str(per_second), str(seconds), str(consumers)]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
            end = threading.Timer(seconds + LOAD_AT_MOST_S, process.kill)
            end.start()
            assert process.stderr is not None
            told = []
            for line in process.stderr:
                if line.strip() == "ready" and begin is not None:
                    begin()
                told.append(line)
            output, _ = process.communicate()
            end.cancel()
        if process.returncode != 0:
            raise NotReady(f"Kafka: KafkaLoad: {''.join(told)[-400:]}")
        return output

    def leader(self, topic: str) -> int:
        """Return the node that leads most partitions of a topic."""
        told = self.tool("TopicCommand", "--describe", "--topic", topic)
        leaders = [int(node) for node in re.findall(r"Leader: (\d+)", told)]
        if not leaders:
            raise NotReady(f"Kafka: no leader: {told[-300:]}")
        return max(set(leaders), key=leaders.count)

    def kill(self, node: int) -> None:
        """Kill a node with SIGKILL."""
        os.kill(self._nodes[node], signal.SIGKILL)

    def pids(self) -> list[int]:
        """Return the process ids of the nodes."""
        return self._processes.pids()

    def stop(self) -> None:
        """Stop all nodes; their data is thrown away, so nothing waits for a clean stop."""
        self._processes.stop(grace_s=1)
