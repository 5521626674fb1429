"""The state that `packetboat up` keeps between runs: identity, secrets, ports.

One run at a time has it.
"""

from __future__ import annotations

import fcntl
import os
import random
import secrets
import socket
from collections.abc import Container
from pathlib import Path
from typing import IO

import msgspec

from gateway.addresses import CannotListen, bound
from metadata.postgres.embedded import sync_directory

STATE_VERSION = 1
HTTP_PORTS = range(8080, 8090)
STORE_PORTS = (8091, 8092, 8093)
POSTGRES_PORT = 8094
METRICS_PORT = 8095
FREE_PORTS = range(20_000, 32_000)
"""Ports to choose from, below the range that the kernel takes for outgoing connections."""
MOST_TRIES = 1_000


class DataDirInUse(Exception):
    """Another `packetboat up` runs on this data directory."""


class PortTaken(Exception):
    """The port asked for is in use by another program."""


class Ports(msgspec.Struct, frozen=True):
    """The ports of the children; kept, so that a restart has the same addresses."""

    http: int
    store: tuple[int, int, int]
    postgres: int
    metrics: int = 0
    """0: of a state that 0.2 kept, which had none."""


class State(msgspec.Struct, kw_only=True):
    """state.json, mode 0600. Bytes are hex."""

    version: int = STATE_VERSION
    cluster_uid: str = msgspec.field(default_factory=lambda: secrets.token_hex(16))
    store_secret: str = msgspec.field(default_factory=lambda: secrets.token_hex(32))
    """The value of PACKETBOAT_STORE_SECRET: another may be put beside."""
    ack_secret: str = msgspec.field(default_factory=lambda: secrets.token_hex(32))
    """The value of PACKETBOAT_ACK_SECRET."""
    seal_keys: str = msgspec.field(default_factory=lambda: "a:" + secrets.token_hex(32))
    """The value of PACKETBOAT_SEAL_KEYS: another may be put in front."""
    has_operator: bool = False
    """Whether the installation's first operator was made, or found to be there."""
    ports: Ports | None = None


class DataDir:
    """The directory of one embedded installation."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock: IO[str] | None = None

    @property
    def token_file(self) -> Path:
        return self.path / "dev-token"

    @property
    def operator_file(self) -> Path:
        """The first operator's credential, as two lines a shell can eval."""
        return self.path / "operator.env"

    @property
    def runner_file(self) -> Path:
        """The credential of the runner of exports, likewise."""
        return self.path / "export-runner.env"

    @property
    def client_env(self) -> Path:
        return self.path / "client.env"

    @property
    def postgres(self) -> Path:
        return self.path / "postgres"

    def node(self, node_id: int) -> Path:
        return self.path / f"node-{node_id}"

    def log(self, name: str) -> Path:
        return self.path / "logs" / f"{name}.log"

    def open(self) -> State:
        """Takes the lock and reads the state, or makes it. Raises DataDirInUse."""
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / "logs").mkdir(mode=0o700, exist_ok=True)
        lock = (self.path / "lock").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            raise DataDirInUse(
                f"{self.path} is in use by process {lock.read().strip() or '?'}"
            ) from error
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        self._lock = lock
        try:
            raw = (self.path / "state.json").read_bytes()
        except FileNotFoundError:
            state = State()
            self.save(state)
            return state
        state = msgspec.json.decode(raw, type=State)
        if state.version != STATE_VERSION:
            raise ValueError(f"{self.path} was made by another version ({state.version})")
        return state

    def save(self, state: State) -> None:
        self.write_private("state.json", msgspec.json.format(msgspec.json.encode(state)))

    def write_private(self, name: str, content: bytes) -> None:
        """Write a file whole or not at all, readable by the owner only."""
        temporary = self.path / (name + ".new")
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        temporary.replace(self.path / name)
        sync_directory(self.path)

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


class Claims:
    """Ports that a supervisor has chosen, so that no other supervisor chooses them before its
    processes listen there. The kernel forgets them with the process, however it ends."""

    def __init__(self) -> None:
        self._held: dict[int, socket.socket] = {}

    def take(self, port: int) -> bool:
        """Claim a port; return whether nobody else has claimed it."""
        if port in self._held:
            return True
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # A name that is no file's, of this network namespace as ports are.
            claim.bind(f"\0packetboat-port-{port}")
        except OSError:
            claim.close()
            return False
        self._held[port] = claim
        return True

    def keep_only(self, ports: Container[int]) -> None:
        for port in [port for port in self._held if port not in ports]:
            self._held.pop(port).close()


def choose_ports(
    host: str, wanted: int | None, kept: Ports | None, claims: Claims | None = None
) -> Ports:
    """Return the kept or default ports if they are free, else others; `wanted` 0 takes any for all.

    All of them are claimed. Raises PortTaken only for an HTTP port that was asked for by number.
    """
    claims = claims or Claims()

    def usable(host: str, port: int) -> bool:
        return is_free(host, port) and claims.take(port)

    def any_usable(host: str) -> int:
        return next(port for _ in range(MOST_TRIES) if usable(host, port := free_port(host)))

    if wanted:
        if not usable(host, wanted):
            raise PortTaken(
                f"PACKETBOAT_PORT={wanted} (--port): in use at {host}; choose another, or 0 for any"
            )
        http = wanted
    else:
        preferred = [kept.http] if kept else [] if wanted == 0 else list(HTTP_PORTS)
        http = next((port for port in preferred if usable(host, port)), None) or any_usable(host)
    taken = {http}
    anywhere = kept is None and wanted == 0

    def pick(port: int) -> int:
        while (
            (anywhere and port in (*STORE_PORTS, POSTGRES_PORT, METRICS_PORT))
            or port in taken
            or not usable("127.0.0.1", port)
        ):
            port = any_usable("127.0.0.1")
        taken.add(port)
        return port

    first, second, third = kept.store if kept else STORE_PORTS
    ports = Ports(
        http,
        (pick(first), pick(second), pick(third)),
        pick(kept.postgres if kept else POSTGRES_PORT),
        pick((kept.metrics if kept else 0) or METRICS_PORT),
    )
    claims.keep_only(taken)
    return ports


def are_free(host: str, ports: Ports) -> bool:
    """Return whether nothing else listens on any of them."""
    inner = (*ports.store, ports.postgres, ports.metrics)
    return is_free(host, ports.http) and all(is_free("127.0.0.1", port) for port in inner)


def is_free(host: str, port: int) -> bool:
    try:
        bound(host, port).close()
    except CannotListen:
        return False
    return True


def free_port(host: str) -> int:
    """Return a port on which nothing listens now. Raises PortTaken if there is none, for example
    for a host that is not this machine's.
    """
    for _ in range(MOST_TRIES):
        port = random.choice(FREE_PORTS)
        if is_free(host, port):
            return port
    raise PortTaken(f"PACKETBOAT_HOST={host!r} (--host): no port to listen on was found there")
