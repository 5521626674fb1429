"""Settings of the server program: every default in one place, `PACKETBOAT_*` overrides them.

docs/settings.md describes each; a test holds the page to this module.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from store_nodes.settings import Address, parse_peers

PREFIX = "PACKETBOAT_"


class SettingsError(ValueError):
    """A variable of the environment does not fit; the text names it."""


class Listener(enum.Enum):
    """Who reads HTTP/1.1: our own reader of plain requests, with Hypercorn for all else, at about
    half the processor time a publish; or Hypercorn alone."""

    PLAIN = "plain"
    HYPERCORN = "hypercorn"


class Role(enum.Enum):
    """Which parts a server process carries."""

    ALL = "all"
    GATEWAY = "gateway"
    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    SCHEDULER = "scheduler"

    @property
    def publishes(self) -> bool:
        return self in (Role.ALL, Role.PUBLISH)

    @property
    def subscribes(self) -> bool:
        return self in (Role.ALL, Role.SUBSCRIBE)

    @property
    def schedules(self) -> bool:
        return self in (Role.ALL, Role.SCHEDULER)

    @property
    def controls(self) -> bool:
        return self in (Role.ALL, Role.GATEWAY)


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """One server process. `PACKETBOAT_PORT=80` sets `port`, and so on."""

    host: str = "127.0.0.1"
    port: int = 8080
    role: Role = Role.ALL
    workers: int = 1
    """Processes sharing the port; more than one only for roles that do not subscribe."""
    store_nodes: dict[int, Address] = field(default_factory=dict)
    """`1=127.0.0.1:8091,2=127.0.0.1:8092,3=127.0.0.1:8093`"""
    store_groups: int = 8
    store_secret: bytes = field(default=b"", repr=False)
    """Hex; shared by store nodes and their clients."""
    ack_secret: bytes = field(default=b"", repr=False)
    """Hex; authenticates ack ids. Processes that serve one tenant must share it."""
    dev_token_sha256: bytes = field(default=b"", repr=False)
    """Hex; the development tenant's token is known to the server by this hash only."""
    tenant_stored_bytes: int = 0
    """What a tenant may store over all of its topics; 0: no limit. For the scheduling role."""
    http_listener: Listener = Listener.PLAIN
    """`hypercorn`: every connection is Hypercorn's from its first byte."""
    log_level: str = "info"
    access_log_every: int = 0
    """0 logs failed requests only, 1 every request, n each n-th."""
    body_timeout_s: float = 30.0
    """The longest pause between two parts of a request body."""
    drain_s: float = 10.0
    """From SIGTERM to exit at the latest."""

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] = os.environ, **given: Any
    ) -> ServerSettings:
        """`given` (from the command line) wins where it is not None. Raises SettingsError."""
        values = {name: value for name, value in given.items() if value is not None}
        for setting in fields(cls):
            variable = PREFIX + setting.name.upper()
            text = environment.get(variable)
            if text is None or setting.name in values:
                continue
            try:
                values[setting.name] = _READERS[str(setting.type)](text)
            except ValueError as error:
                raise SettingsError(f"{variable}={text!r}: {error}") from None
        settings = cls(**values)
        settings._check()
        return settings

    def _check(self) -> None:
        if not self.store_nodes:
            raise SettingsError("PACKETBOAT_STORE_NODES is needed: 1=host:port,2=host:port,…")
        if self.workers < 1 or (self.workers > 1 and self.role.subscribes):
            raise SettingsError(
                f"--workers {self.workers} is refused for the role {self.role.value}: partitions"
                " have one owner, so a subscribing process runs alone"
            )
        if self.role.subscribes and len(self.ack_secret) < 16:
            raise SettingsError("PACKETBOAT_ACK_SECRET is needed: at least 16 bytes in hex")


@dataclass(frozen=True, slots=True)
class UpSettings:
    """`packetboat up`: everything on one machine."""

    data_dir: Path = Path(".packetboat")
    host: str = "127.0.0.1"
    port: int | None = None
    """None: the kept one, else the first free from 8080 on; 0: any free ports for everything."""
    database_url: str = field(default="", repr=False)
    """When set, this Postgres is used and none is started."""
    log_level: str = "info"

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] = os.environ, **given: Any
    ) -> UpSettings:
        values = {name: value for name, value in given.items() if value is not None}
        for setting in fields(cls):
            text = environment.get(PREFIX + setting.name.upper())
            if text is not None and setting.name not in values:
                values[setting.name] = _READERS[str(setting.type)](text)
        return cls(**values)


def log_level(environment: Mapping[str, str] = os.environ) -> str:
    """For processes whose other settings are of another part."""
    return environment.get(f"{PREFIX}LOG_LEVEL", "info")


def inherited_environment() -> dict[str, str]:
    """What a child process starts from."""
    return dict(os.environ)


def set_metrics_directory(directory: str) -> None:
    """prometheus_client reads this once, when it is imported."""
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = directory


def metrics_are_shared() -> bool:
    return "PROMETHEUS_MULTIPROC_DIR" in os.environ


def format_addresses(addresses: Mapping[int, Address]) -> str:
    return ",".join(f"{node}={host}:{port}" for node, (host, port) in sorted(addresses.items()))


_READERS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "int": int,
    "int | None": int,
    "float": float,
    "bytes": bytes.fromhex,
    "Role": Role,
    "Listener": Listener,
    "Path": Path,
    "dict[int, Address]": parse_peers,
}
