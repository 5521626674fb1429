"""An installation whose processes are started one by one, so that faults can be aimed.

Postgres, three store nodes (each on a directory of its own, which may be a disk image of its own)
and a server. Nothing restarts what is killed but this harness.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from auth.development import token_hash
from harness import failpoints
from harness.fork_server import fork_server
from harness.http_client import connect, request
from harness.measure import tree
from harness.power_cut import freeze
from harness.processes import Processes, free_ports
from harness.releases import CURRENT, Release
from harness.seeded_postgres import SeededPostgres
from harness.settings import WITHOUT_QUOTAS, inherited_environment
from metadata.postgres.embedded import EmbeddedPostgres
from peering.settings import PeerSettings
from peering.shared_secret import SharedSecret
from peering.tls import open_peer_tls
from store_nodes.client import StoreClient

NODES = (1, 2, 3)
GROUPS = 8
HOST = "127.0.0.1"


class ClusterFailed(AssertionError):
    """A cluster that did not come up, or did not heal.

    The text ends with the last words of the process.
    """


class ChaosCluster:
    """One installation under `root`; `node_dirs` puts nodes elsewhere. Use as a context manager:
    leaving it kills everything."""

    def __init__(
        self,
        root: Path,
        node_dirs: Mapping[int, Path] | None = None,
        *,
        store_only: bool = False,
        segment_bytes: int = 64 * 1024 * 1024,
        zones: Mapping[int, str] | None = None,
        node_settings: Mapping[str, str] | None = None,
        proxied: bool = False,
        failpoints: bool = False,
        seeded: bool = True,
        release: Release = CURRENT,
    ) -> None:
        """Make a cluster.

        `node_settings`: more of every node's environment. `proxied`: the first nodes listen at
        `listens`, not at their addresses; something must stand between (`links`). `failpoints`: the
        server has some, see `act_once`. `seeded`: Postgres begins with the schema of this tree.
        `release`: the release of all started processes.
        """
        self.root = root
        self.release = release
        """The release of the commands that are run."""
        self.node_releases = dict.fromkeys(NODES, release)
        """The release of each node from its next start on."""
        self._node_settings = dict(node_settings or {})
        self._zones = dict(zones or {})
        self._store_only = store_only
        self._segment_bytes = segment_bytes
        self._failpoints = failpoints
        self.node_dirs = dict(node_dirs or {node: root / f"node-{node}" for node in NODES})
        self.token = f"pbdev_{secrets.token_hex(16)}"
        self.http_port, self.metrics_port, postgres_port, *store_ports = free_ports(6)
        self.addresses = {node: (HOST, port) for node, port in zip(NODES, store_ports, strict=True)}
        """The addresses of the first nodes, as every process is told them."""
        self.listens = dict(self.addresses)
        if proxied:
            self.listens = {
                node: (HOST, port) for node, port in zip(NODES, free_ports(3), strict=True)
            }
        self.joined: dict[int, tuple[str, int]] = {}
        """The addresses of the nodes that came later: see `new_node`."""
        self.settings: dict[str, str] = {}
        """The settings beyond those that all processes have, from their next starts on."""
        self.store_secret = SharedSecret(secrets.token_bytes(32))
        self._cluster_uid = secrets.token_hex(16)
        self._ack_secret = secrets.token_hex(32)
        self._processes = Processes()
        self._nodes: dict[int, subprocess.Popen[bytes]] = {}
        self._server: subprocess.Popen[bytes] | None = None
        self._seeded = seeded and release is CURRENT
        made_of = SeededPostgres if self._seeded else EmbeddedPostgres
        self._postgres: EmbeddedPostgres = made_of(root / "postgres", port=postgres_port)
        self.lapses: list[float] = []
        """When the server or Postgres ended or began, by the monotonic clock: what was not
        committed then is forgotten."""

    # -- starting ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start everything, and wait until it is ready; also after `kill_everything`."""
        self.root.mkdir(parents=True, exist_ok=True)
        for node in NODES:
            if not self.is_running(node):
                self.start_node(node)
        if self._store_only:
            await self._until_led()
            return
        self._postgres.prepare()
        await self.start_postgres()
        if not self._seeded:
            await self.migrate()
        self.start_server()
        await self.until_ready()

    async def migrate(self) -> None:
        """Run `packetboat migrate` to its end."""
        migrate = self._start("migrate", self._environment())
        if await asyncio.to_thread(migrate.wait) != 0:
            raise ClusterFailed(f"migrate: {self.tail('migrate')}")

    def start_node(self, node: int, settings: Mapping[str, str] | None = None) -> None:
        """Start a store node that does not run; returns at once. `settings` go over its own."""
        assert not self.is_running(node)
        self.node_dirs[node].mkdir(parents=True, exist_ok=True)
        environment = self._environment() | {
            "PACKETBOAT_STORE_NODE_ID": str(node),
            "PACKETBOAT_STORE_DIR": str(self.node_dirs[node]),
        }
        environment |= self._sizes()
        if node in self.joined:
            host, port = self.joined[node]
            environment |= {
                "PACKETBOAT_STORE_JOIN": "1",
                "PACKETBOAT_STORE_LISTEN": f"{host}:{port}",
            }
        elif self.listens[node] != self.addresses[node]:
            environment["PACKETBOAT_STORE_LISTEN"] = "{}:{}".format(*self.listens[node])
        environment |= self._node_settings | dict(settings or {})
        self._nodes[node] = self._start(
            "store-node",
            environment,
            log=f"node-{node}",
            release=self.node_releases.get(node, self.release),
        )

    def new_node(self, node: int) -> str:
        """Make room for a node with an id that was never used; its address. `start_node` starts
        it, with nothing in its directory, and somebody has to add it to the groups."""
        assert node not in self.node_dirs
        (port,) = free_ports(1)
        self.joined[node] = (HOST, port)
        self.node_dirs[node] = self.root / f"node-{node}"
        return f"{HOST}:{port}"

    def start_server(self) -> None:
        """Returns at once."""
        environment, program = self._environment(), "gateway"
        if self._failpoints:
            environment[failpoints.FAILPOINT] = str(self.root / "failpoint")
            program = "harness.failpoints"
        self.lapses.append(time.monotonic())
        self._server = self._start("serve", environment, program=program)

    def act_once(self, failpoint: str) -> None:
        """Make the server act the next time it comes there; for a cluster with failpoints."""
        assert self._failpoints
        failpoints.act_once(self.root / "failpoint", failpoint)

    def acted(self) -> bool:
        """Return whether the failpoint has acted that `act_once` named last."""
        return not (self.root / "failpoint").exists()

    def _start(
        self,
        command: str,
        environment: dict[str, str],
        log: str = "",
        program: str = "gateway",
        release: Release | None = None,
    ) -> subprocess.Popen[bytes]:
        release = release or self.release
        environment |= release.environment()
        output = self.root / f"{log or command}.log"
        if release is CURRENT:
            process = fork_server().start(program, [command], log=output, environment=environment)
            self._processes.add(process)
            return process
        return self._processes.start(
            [sys.executable, "-m", program, command],
            log=output,
            env=environment,
            cwd=release.tree,
        )

    def _environment(self) -> dict[str, str]:
        return (
            WITHOUT_QUOTAS
            | {
                "PACKETBOAT_HOST": HOST,
                "PACKETBOAT_PORT": str(self.http_port),
                "PACKETBOAT_METRICS_PORT": str(self.metrics_port),
                "PACKETBOAT_STORE_NODES": ",".join(
                    f"{node}={host}:{port}"
                    + (f"@{self._zones[node]}" if node in self._zones else "")
                    for node, (host, port) in self.addresses.items()
                ),
                "PACKETBOAT_STORE_GROUPS": str(GROUPS),
                "PACKETBOAT_CLUSTER_UID": self._cluster_uid,
                "PACKETBOAT_STORE_SECRET": self.store_secret.first.hex(),
                "PACKETBOAT_ACK_SECRET": self._ack_secret,
                "PACKETBOAT_SEAL_KEYS": "a:" + "5a" * 32,
                "PACKETBOAT_DEV_TOKEN_SHA256": token_hash(self.token),
                "PACKETBOAT_DATABASE_URL": self._database_url(),
                "PACKETBOAT_EGRESS_ALLOWED": f"http://{HOST}:*",
            }
            | self.settings
        )

    def _sizes(self) -> dict[str, str]:
        return {
            "PACKETBOAT_STORE_DISK_RESERVE_BYTES": str(16 * 1024 * 1024),
            "PACKETBOAT_STORE_SEGMENT_BYTES": str(self._segment_bytes),
        }

    def _database_url(self) -> str:
        try:
            return self._postgres.url
        except FileNotFoundError:  # not made yet; store nodes do without
            return ""

    async def until_ready(self, timeout_s: float = 60.0) -> None:
        """Until the server says it is ready."""
        deadline = time.monotonic() + timeout_s
        said = "no answer"
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                status, body = await self.call("GET", "/readyz")
                if status == 200:
                    return
                said = body.decode(errors="replace")
            if self._server is not None and self._server.poll() is not None:
                break
            await asyncio.sleep(0.05)
        raise ClusterFailed(f"not ready: {said}\n{self.tail('serve')}\n{self.tail('node-1')}")

    async def _until_led(self) -> None:
        client = self.store_client()
        await client.start()
        try:
            await client.wait_ready()
        finally:
            await client.close()

    async def metrics(self) -> str:
        """Return the server's metrics as Prometheus reads them; raises OSError."""
        return await metrics_at(self.metrics_port)

    async def call(
        self, method: str, path: str, body: bytes = b"", timeout_s: float = 30.0
    ) -> tuple[int, bytes]:
        """Send one HTTP request on a connection of its own; raises OSError."""
        connection = await connect(HOST, self.http_port)
        try:
            answer = await asyncio.wait_for(
                connection.send(request(method, path, self.token, body)), timeout_s
            )
        finally:
            connection.close()
        return answer.status, answer.body

    @property
    def postgres(self) -> EmbeddedPostgres:
        """The server's data and how it is reached."""
        return self._postgres

    # -- faults --------------------------------------------------------------------------------

    def is_running(self, node: int) -> bool:
        return node in self._nodes and self._nodes[node].poll() is None

    def pid(self, node: int) -> int:
        """Return the process id of a node that runs."""
        return self._nodes[node].pid

    def kill_node(self, node: int) -> None:
        """Send SIGKILL; the node is gone when this returns."""
        self._nodes[node].kill()
        self._nodes[node].wait()

    def end_node(self, node: int) -> None:
        """Gone for good, whether it runs, hangs, or has ended by itself."""
        process = self._nodes[node]
        if process.poll() is None:
            process.kill()
            process.wait()

    async def until_up(self, node: int, timeout_s: float = 20.0) -> None:
        """Wait until the node answers."""
        async with asyncio.timeout(timeout_s):
            while "groups" not in (await self.statuses((node,))).get(node, {}):
                await asyncio.sleep(0.05)

    async def stop_node(self, node: int) -> None:
        """SIGTERM: it leaves a checkpoint; returns when it is gone."""
        await self.until_up(node)  # Before that, it has no handler for the signal.
        process = self._nodes[node]
        process.terminate()
        await asyncio.to_thread(process.wait, 30)

    async def exit_status(self, node: int, timeout_s: float = 60.0) -> int:
        """Wait until a node ends by itself; its exit status."""
        return await asyncio.to_thread(self._nodes[node].wait, timeout_s)

    def wipe_node(self, node: int) -> None:
        """Throw away the directory of a node that does not run."""
        assert not self.is_running(node)
        for entry in self.node_dirs[node].iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def copy_node(self, node: int, name: str = "copy") -> Path:
        """Copy the directory as it is now, as a backup takes it; also of a running node."""
        copy = self.root / f"{name}-of-{node}"
        shutil.copytree(self.node_dirs[node], copy)
        return copy

    def restore_node(self, node: int, copy: Path) -> None:
        """Put a copy in the place of the directory of a node that does not run."""
        self.wipe_node(node)
        shutil.copytree(copy, self.node_dirs[node], dirs_exist_ok=True)

    def swap_nodes(self, one: int, other: int) -> None:
        """Swap the directories of two nodes that do not run."""
        assert not self.is_running(one)
        assert not self.is_running(other)
        dirs = self.node_dirs
        dirs[one], dirs[other] = dirs[other], dirs[one]

    def pause_node(self, node: int) -> None:
        """SIGSTOP: it holds its connections and says nothing."""
        self._nodes[node].send_signal(signal.SIGSTOP)

    def freeze_nodes(self, nodes: Iterable[int]) -> None:
        """Stop their processors, as a power failure does, before the power of their disks is cut:
        a node that runs on can be told that a sync succeeded which did not (see power_cut)."""
        freeze(*(self._nodes[node].pid for node in nodes))

    def resume_node(self, node: int) -> None:
        """Send SIGCONT."""
        self._nodes[node].send_signal(signal.SIGCONT)

    def kill_server(self) -> None:
        """Send SIGKILL; the server is gone when this returns."""
        assert self._server is not None
        self.lapses.append(time.monotonic())
        self._server.kill()
        self._server.wait()

    async def server_status(self, timeout_s: float = 20.0) -> int:
        """Wait until the server ends by itself; its exit status."""
        assert self._server is not None
        return await asyncio.to_thread(self._server.wait, timeout_s)

    def stop_server(self) -> int:
        """Send SIGTERM; returns the exit status once the server has drained."""
        assert self._server is not None
        self.lapses.append(time.monotonic())
        self._server.terminate()
        return self._server.wait(30)

    def kill_postgres(self) -> None:
        """Send SIGKILL to all of Postgres, which is gone when this returns."""
        assert self._postgres.pid is not None
        self.lapses.append(time.monotonic())
        for pid in tree([self._postgres.pid]):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        while self._postgres.poll() is None:
            time.sleep(0.01)

    async def start_postgres(self) -> None:
        """Start it again; returns when it takes connections."""
        self._postgres.spawn()
        await asyncio.to_thread(self._postgres.wait_ready)
        self.lapses.append(time.monotonic())

    def kill_everything(self) -> None:
        """Send SIGKILL to every process, Postgres too, before any of them can say a word."""
        self.lapses.append(time.monotonic())
        postgres = tree([self._postgres.pid]) if self._postgres.pid is not None else set()
        for pid in [*self._processes.pids(), *postgres]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in [*self._nodes.values(), *([self._server] if self._server else [])]:
            process.wait()
        while self._postgres.pid is not None and self._postgres.poll() is None:
            time.sleep(0.01)

    def stop(self) -> None:
        """Everything, not waiting for good manners: the data is thrown away."""
        for process in self._nodes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
        self._processes.stop(grace_s=0.0)
        self._postgres.stop()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()

    # -- operating ----------------------------------------------------------------------------

    def environment(self) -> dict[str, str]:
        """Return the environment of an operator's shell: the settings that all processes share."""
        return inherited_environment() | self._environment() | self._sizes()

    @property
    def server_pid(self) -> int:
        """Return the process id of the server that was started last."""
        assert self._server is not None
        return self._server.pid

    def node_pids(self) -> dict[int, int]:
        """Return the process ids of the nodes started here."""
        return {node: process.pid for node, process in self._nodes.items()}

    async def operate(self, *arguments: str) -> subprocess.Popen[str]:
        """Start `packetboat store ARGUMENTS`; its output is a pipe."""
        return await self._command("store", *arguments)

    async def _command(self, *arguments: str) -> subprocess.Popen[str]:
        return await asyncio.to_thread(
            subprocess.Popen,
            [sys.executable, "-m", "gateway", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | self._environment() | self.release.environment(),
            cwd=self.release.tree,
        )

    async def operated(self, *arguments: str) -> tuple[int, str]:
        """Run `packetboat store ARGUMENTS`; returns its exit status and its output."""
        return await self.command("store", *arguments)

    async def command(self, *arguments: str) -> tuple[int, str]:
        """Run `packetboat ARGUMENTS`; returns its exit status and its output."""
        process = await self._command(*arguments)
        said, _ = await asyncio.to_thread(process.communicate)
        return process.returncode, said

    # -- looking in ----------------------------------------------------------------------------

    def store_client(self, nodes: Iterable[int] = ()) -> StoreClient:
        """Return a client of the store nodes, not started.

        It is told of `nodes` too, which came later, as long as no group has them.
        """
        late = {node: self.joined[node] for node in nodes if node in self.joined}
        environment = self._environment()
        return StoreClient(
            self.addresses | late,
            groups=range(GROUPS),
            secret=SharedSecret.from_text(environment["PACKETBOAT_STORE_SECRET"]),
            tls=open_peer_tls(PeerSettings.from_environment(environment)),
        )

    @contextlib.asynccontextmanager
    async def ready_client(self) -> AsyncIterator[StoreClient]:
        """Connect with the present settings; every group has a leader."""
        client = self.store_client()
        await client.start()
        try:
            await client.wait_ready()
            yield client
        finally:
            await client.close()

    async def statuses(self, nodes: Iterable[int] | None = None) -> dict[int, dict[str, Any]]:
        """Return each node's status; {"error": …} where it says nothing.

        It waits a while for `nodes`.
        """
        wanted = set(self.addresses if nodes is None else nodes)
        client = self.store_client(wanted)
        await client.start()
        try:
            for _ in range(50):  # connections come up one by one
                statuses: dict[int, dict[str, Any]] = await client.status()
                if all("error" not in statuses.get(node, {"error": ""}) for node in wanted):
                    break
                await asyncio.sleep(0.05)
            return statuses
        finally:
            await client.close()

    async def until_replicas_agree(
        self, timeout_s: float = 60.0, *, nodes: Iterable[int] | None = None
    ) -> float:
        """Until all nodes (or these) have applied the same and have the same digest, in every
        group; the seconds it took. Raises ClusterFailed at once when digests differ at the same
        instance, or a node is damaged."""
        began = time.monotonic()
        seen = ""
        wanted = None if nodes is None else set(nodes)
        while time.monotonic() - began < timeout_s:
            statuses = {
                node: status
                for node, status in (await self.statuses(wanted)).items()
                if wanted is None or node in wanted
            }
            damaged = {
                n: status["damaged"] for n, status in statuses.items() if status.get("damaged")
            }
            if damaged:
                raise ClusterFailed(f"damaged nodes: {damaged}")
            if all("groups" in status for status in statuses.values()):
                agreed, seen = _compare(statuses)
                if agreed:
                    return time.monotonic() - began
            else:
                seen = str({node: status.get("error") for node, status in statuses.items()})
            await asyncio.sleep(0.1)
        raise ClusterFailed(f"replicas do not agree after {timeout_s:.0f} s: {seen}")

    def tail(self, log: str, max_bytes: int = 1500) -> str:
        """Return the end of a process's log."""
        try:
            return (self.root / f"{log}.log").read_bytes()[-max_bytes:].decode(errors="replace")
        except FileNotFoundError:
            return ""


def _compare(statuses: Mapping[int, Mapping[str, Any]]) -> tuple[bool, str]:
    """Return (all at one instance and digest, the difference)."""
    agreed, words = True, []
    groups = {
        node: {group["group"]: group for group in status["groups"]}
        for node, status in statuses.items()
    }
    for group in sorted(set().union(*groups.values())):
        if any(group not in held for held in groups.values()):
            return False, f"group {group} is not on every node yet"
        at = {
            node: (held[group]["applied"], held[group]["digest"]) for node, held in groups.items()
        }
        by_instance: dict[int, set[str]] = {}
        for applied, digest in at.values():
            by_instance.setdefault(applied, set()).add(digest)
        if any(len(digests) > 1 for digests in by_instance.values()):
            raise ClusterFailed(f"group {group}: digests differ at one instance: {at}")
        if len(by_instance) > 1:
            agreed = False
            words.append(f"group {group} at {at}")
    return agreed, "; ".join(words)


async def metrics_at(port: int) -> str:
    """Return the page of a process of this machine; raises OSError."""
    connection = await connect(HOST, port)
    try:
        answer = await connection.send(request("GET", "/metrics", "", b""))
        return answer.body.decode()
    finally:
        connection.close()
