"""A whole installation in one world: store nodes, server processes, Postgres, and their clients.

Each process runs the product's own program: `store_nodes.main`, and what `gateway.server` serves
with all roles. Test code stands where the operating system does.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest import mock

import asyncpg.connection
import msgspec
from cryptography.hazmat.primitives.asymmetric import ec
from prometheus_client import CollectorRegistry

from edge import load, process_pool, worker
from gateway import heap, server
from gateway.access_watch import OpenRequest
from gateway.configuration.settings import Role, ServerSettings, format_addresses
from gateway.http.connection import Connection
from gateway.middleware import request_id
from metadata.eras import HistoryCheck, Position
from peering.rpc.connection import FrameConnection
from peering.shared_secret import SharedSecret
from store_nodes import main as store_main
from store_nodes.client.watch import Watch
from store_nodes.node.client_session import ClientSession
from store_nodes.settings import StoreNodeSettings
from subscribe_forwarder.delivery.wait_list import PullWaiter
from tests.simulation.delivery.postgres_network import PostgresFaults, PostgresNetwork, Trace
from tests.simulation.delivery.postgres_server import SimulatedServer
from tests.simulation.delivery.postgres_world import FIRST_PLACE, Place
from tests.simulation.kernel import hashes
from tests.simulation.kernel import loop as loops
from tests.simulation.kernel import network as networks
from tests.simulation.kernel.disk import ProcessDisk
from tests.simulation.kernel.world import SECOND, Process, World

STORE_PORT = 8091
SERVERS = {"server-1": 8081, "server-2": 8082, "server-3": 8083}
PLATFORM = "platform"
"""The machine that the servers, and their clients, run on."""
POSTGRES = ("postgres.simulated", 5432)
TOKEN = "pkb_simulated"
_SECRET = "0123456789abcdef" * 4
_GROUPS = 2


class Snapshot(NamedTuple):
    """The files of a Postgres as they were at a moment, and where it was in its history."""

    files: Path
    place: Place
    taken_us: int


class Installation:
    """`start` what there is to start, then let the world run."""

    def __init__(self, world: World, seed: int, *, nodes: int, faults: PostgresFaults) -> None:
        self.world = world
        self.seed = seed
        self.directory = Path(tempfile.mkdtemp(prefix="packetboat-simulation-"))
        self.directory.chmod(0o711)
        self._snapshots = 0
        self._standby: Snapshot | None = None
        self._servers = 0
        asyncpg.connection._uid = 0  # it names statements, over all connections of the process
        self.trace = Trace()
        self.postgres = PostgresNetwork(
            world, self._new_server(), Random(f"postgres {seed}"), faults, self.trace
        )
        networks.of(world).outside[POSTGRES] = self.postgres.connect
        self.nodes = {n: (f"store-{n}", STORE_PORT) for n in range(1, nodes + 1)}
        self.processes: dict[str, Process] = {}
        self._seen: dict[Process, int] = {}
        """Bytes of the log of today's Postgres that each process saw at most."""
        os.environ["PACKETBOAT_DATABASE_URL"] = (
            f"postgresql://postgres:none@{POSTGRES[0]}:{POSTGRES[1]}/packetboat?sslmode=disable"
        )

    def start(self) -> None:
        for node in self.nodes:
            self.start_node(node)
        for name in SERVERS:
            self.start_server(name)

    def start_node(self, node: int) -> None:
        host, port = self.nodes[node]
        settings = StoreNodeSettings(
            node_id=node,
            data_dir=Path("/data"),
            listen=(host, port),
            peers=self.nodes,
            cluster_uid=b"simulated cluster"[:16],
            secret=SharedSecret.from_text(_SECRET),
            groups=_GROUPS,
            segment_bytes=1 << 20,
            disk_reserve_bytes=1 << 20,
        )

        def program(process: Process) -> int:
            return store_main.main(settings, _Host(process))

        self._spawn(host, f"store-{node}", program)

    def start_server(self, name: str) -> None:
        port = SERVERS[name]
        settings = ServerSettings.from_environment(
            {
                "PACKETBOAT_STORE_NODES": format_addresses(self.nodes),
                "PACKETBOAT_STORE_GROUPS": str(_GROUPS),
                "PACKETBOAT_STORE_SECRET": _SECRET,
                "PACKETBOAT_ACK_SECRET": _SECRET,
                "PACKETBOAT_SEAL_KEYS": f"a:{_SECRET}",
                "PACKETBOAT_DEV_TOKEN_SHA256": hashlib.sha256(TOKEN.encode()).hexdigest(),
                "PACKETBOAT_SIGNING_ALGORITHM": "ES256",
            },
            port=port,
            role=Role.ALL,
        )

        def program(process: Process) -> int:
            loops.run(process, server._serve(settings, _Listening(port), None))
            return 0

        self._spawn(PLATFORM, name, program)

    def start_clients(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> Process:
        def program(process: Process) -> int:
            loops.run(process, work())
            return 0

        return self._spawn(PLATFORM, name, program)

    def watched(self) -> AbstractContextManager[object]:
        """Take note of what the servers see of Postgres, for `all_saw_later`, while it is open."""
        original = HistoryCheck._further

        def further(history: HistoryCheck, now: Position) -> None:
            assert self.world.current is not None
            process = self.world.current.process
            self._seen[process] = max(self._seen.get(process, 0), now.wal_bytes)
            original(history, now)

        return mock.patch.object(HistoryCheck, "_further", further)

    def all_saw_later(self, snapshot: Snapshot) -> bool:
        """Return whether each server, as it runs now, saw what came after the snapshot.

        They look once a second. One that did not look since can't tell the snapshot from the
        Postgres that it knew.
        """
        running = (self.processes[name] for name in SERVERS)
        return all(self._seen.get(each, 0) > snapshot.place.wal_bytes for each in running)

    def snapshot(self) -> Snapshot:
        """Take a snapshot of Postgres, which runs."""
        assert self.postgres.server is not None
        self._snapshots += 1
        files = self.directory / f"snapshot-{self._snapshots}"
        return Snapshot(files, self.postgres.server.snapshot(files), self.world.now_us)

    def lose_postgres(self, standby: Snapshot | None = None) -> None:
        """Lose Postgres; a standby has the rows of the snapshot, or all that it committed."""
        self._standby = standby or _promoted(self.snapshot())
        self._seen.clear()
        self.postgres.fail_over(None)

    def promote_standby(self) -> None:
        """The standby is Postgres now."""
        assert self._standby is not None
        self.postgres.fail_over(self._new_server(self._standby.files, self._standby.place))
        shutil.rmtree(self._standby.files)

    def close(self) -> None:
        self.world.close()
        self.postgres.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _spawn(self, host: str, name: str, program: Callable[[Process], int]) -> Process:
        process = self.world.machine(host).spawn(name, program)
        self.processes[name] = process
        return process

    def _new_server(self, files: Path | None = None, place: Place = FIRST_PLACE) -> SimulatedServer:
        self._servers += 1
        directory = self.directory / f"postgres-{self._servers}"
        return SimulatedServer(directory, self.seed, files, place)


def _promoted(one: Snapshot) -> Snapshot:
    return one._replace(place=one.place._replace(timeline=one.place.timeline + 1))


class _Host:
    """`store_nodes.main.Host` of a simulated process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.disk = ProcessDisk(process)

    def run(self, work: Coroutine[Any, Any, int]) -> int:
        return loops.run(self._process, work)

    def leave(self, status: int) -> Any:
        self._process.leave(status)

    def start_again(self) -> Any:
        self._process.leave(0)


class _Listening:
    """A socket that is bound: all that the server does with it is to listen.

    Options of sockets are of the kernel, which is not simulated.
    """

    def __init__(self, port: int) -> None:
        self._address = (PLATFORM, port)

    def setsockopt(self, *_: object) -> None: ...

    def getsockname(self) -> tuple[str, int]:
        return self._address


HASHED = (
    FrameConnection,
    ClientSession,
    Watch,
    Connection,
    OpenRequest,
    PullWaiter,
)
"""The classes of which the product has sets."""


class _Worker:
    """A worker process. Its calls are the product's, and take no time."""

    calls = 0

    @classmethod
    async def start(cls) -> _Worker:
        return cls()

    async def call(self, call: worker.Call) -> worker.Reply:
        self.calls += 1
        sent = msgspec.msgpack.decode(msgspec.msgpack.encode(call), type=worker.Call)
        reply = worker.answer(sent, lambda _: None)
        return msgspec.msgpack.decode(msgspec.msgpack.encode(reply), type=worker.Reply)

    async def end(self) -> None:
        """Do nothing: the worker is idle."""


def _make_key(curve: ec.EllipticCurve, backend: object = None) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(os.urandom(16)) + 1, curve)


def replaced(world: World) -> list[Any]:
    """Return patches that turn a server's effects on its whole process to the simulated one."""

    def leave(status: int) -> None:
        assert world.current is not None
        world.current.process.leave(status)

    def busy(_: object = None) -> tuple[float, float]:
        return 0.0, 0.0

    def process_time() -> float:
        return world.now_us / (10 * SECOND)

    def nothing(*_: object) -> None:
        """Do nothing: it has no effect here."""

    return [
        hashes.numbered(*HASHED),
        mock.patch("joserfc._rfc7518.ec_key.generate_private_key", _make_key),
        mock.patch.object(request_id, "_prefix", b"simulated"),
        mock.patch.object(heap, "freeze", nothing),
        mock.patch.object(load.MachineCpu, "__call__", busy),
        mock.patch.object(time, "process_time", process_time),
        mock.patch.object(os, "_exit", leave),
        mock.patch.object(process_pool, "_Worker", _Worker),
        # The processes of a world are in one, whose metrics would be taken for the same.
        mock.patch.object(CollectorRegistry, "register", nothing),
        mock.patch.object(CollectorRegistry, "unregister", nothing),
    ]
