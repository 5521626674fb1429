"""Settings of the server program: every default in one place, `PACKETBOAT_*` overrides them.

docs/settings.md describes each; a test holds the page to this module.
"""

from __future__ import annotations

import enum
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, NewType

from edge.egress.guard import parse_allowances
from edge.environment import (
    ANY,
    BOUNDS,
    PORT,
    Reader,
    SettingsError,
    boolean,
    bounds_of,
    number,
    shown,
    within,
)
from edge.sealing import Sealer
from openapi.common import NAME_PATTERN as NAME
from peering.shared_secret import SharedSecret
from store_nodes.settings import Address, parse_peers
from subscribe_forwarder.delivery.ack_id import MAX_KEY_BYTES

PREFIX = "PACKETBOAT_"
LogLevel = NewType("LogLevel", str)
_PROXY = re.compile(r"https?://[^\s/?#@]+")
_ORIGIN = re.compile(r"https?://[a-z0-9.:\[\]-]+")
_BASE_URL = re.compile(r"https?://[^\s/?#@]+(/[^\s/?#]+)*")


class Listener(enum.Enum):
    """The implementation of HTTP/1.1: our own connections, which take about a quarter of the
    processor time for a publish, or Hypercorn."""

    OWN = "own"
    HYPERCORN = "hypercorn"

    @classmethod
    def _missing_(cls, value: object) -> Listener | None:
        """Accept `plain`, which was the name of `own` in 0.2."""
        return cls.OWN if value == "plain" else None


class Role(enum.Enum):
    """The parts that a server process runs."""

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


Origins = tuple[str, ...]
"""Origins as browsers send them: scheme, host and port, without a path."""
CLUSTER_UID_BYTES = 16


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Settings of one server process. `PACKETBOAT_PORT=80` sets `port`, and so on."""

    host: str = "127.0.0.1"
    port: int = number(8080, 0, 65_535)
    role: Role = Role.ALL
    workers: int = number(1, 1)
    """Number of processes that share the port."""
    store_nodes: dict[int, Address] = field(default_factory=dict)
    """`1=127.0.0.1:8091,2=127.0.0.1:8092,3=127.0.0.1:8093`"""
    store_groups: int = number(8, 1, 65_535)
    store_secret: SharedSecret | None = field(default=None, repr=False)
    """`hex[,hex…]`, shared by store nodes and their clients. A process proves its identity with the
    first secret and accepts all of them."""
    ack_secret: SharedSecret | None = field(default=None, repr=False)
    """`hex[,hex…]`, shared by subscribing processes. The first secret signs ack ids; all of them
    are accepted."""
    subscribe_link_host: str = "127.0.0.1"
    """Address on which a subscribe forwarder listens for other forwarders."""
    subscribe_link_port: int = number(0, 0, 65_535)
    """Port for other forwarders; 0 takes any free port, which the others learn from Postgres."""
    subscribe_link_advertise: str = ""
    """`host` or `host:port` by which other forwarders reach it, if it differs from the address
    above."""
    subscribe_trace_file: Path | None = None
    """File that gets a line of JSON for each response with messages; None for no file."""
    subscribe_weight: float = number(1.0, above=0)
    """Share of the partitions that this process owns, relative to the other forwarders."""
    dev_token_sha256: bytes = field(default=b"", repr=False)
    """The hash, in hex, of the development tenant's token; the server does not know the token."""
    seal_keys: str = field(default="", repr=False)
    """`id:hex[,id:hex…]`, 32 bytes each. The first key encrypts the secrets in Postgres; all keys
    can decrypt them."""
    issuer: str = ""
    """The public base URL, `https://…` without a slash at the end: the issuer of our tokens, where
    other parties find the keys. Without it, only this installation accepts the tokens."""
    audience: str = "packetboat"
    """The audience of our access tokens: the name of this installation."""
    token_seconds: int = number(3_600, 60, 86_400)
    """Lifetime of an access token."""
    signing_algorithm: str = "RS256"
    """RS256 or ES256; a change applies from the next signing key on."""
    signing_key_days: float = number(30.0, 1 / 24, 366)
    """Days for which a key signs tokens. It is published up to a day before, and verifies its
    tokens afterwards."""
    egress_allowed: tuple[str, ...] = ()
    """Destinations that webhooks of every tenant may reach in addition to public addresses by
    https, separated by commas: `[http://](network|host|*.suffix)[:port|:*]`."""
    dev_egress_allowed: tuple[str, ...] = ()
    """Destinations that webhooks of the development tenant may reach in addition; `packetboat up`
    sets them."""
    egress_ports: tuple[int, ...] = (443, 8443)
    """Ports of public addresses that webhooks may reach."""
    egress_proxy: str = ""
    """`http://host:port`: a forward proxy for all outbound requests, by CONNECT."""
    http_listener: Listener = Listener.OWN
    """With `hypercorn`, Hypercorn serves every connection from its first byte."""
    http2: bool = False
    """Whether Hypercorn serves HTTP/2, without TLS, to clients that begin with it."""
    max_requests: int = number(1_000, 1)
    """Requests that a process runs at once, without those that only wait, such as long-polls."""
    control_writes_per_second: float = number(50.0, 0.1)
    """Changes that a process makes for one tenant in a second; further changes wait."""
    max_waiting: int = number(20_000, 1)
    """Long-polls and streams that a process holds open at once."""
    max_request_bytes: int = number(512 * 1024 * 1024, 16 * 1024 * 1024)
    """Bytes of the bodies of all running requests of a process."""
    max_loop_lag_s: float = number(0.1, 0.005, 10)
    """Maximum event-loop lag; while it stays above this, some requests are refused."""
    max_connections: int = number(20_000, 1)
    """Open connections of a process."""
    max_connections_of_address: int = number(10_000, 1)
    """Open connections of one client address; a load balancer is one address."""
    send_timeout_s: float = number(30.0, 1, 3600)
    """The server disconnects a client that reads less than 16 KiB of waiting bytes in this time."""
    max_unsent_bytes: int = number(512 * 1024 * 1024, 1024 * 1024)
    """Bytes of answers that clients of a process have not read yet."""
    max_unsent_bytes_of_tenant: int = number(128 * 1024 * 1024, 1024 * 1024)
    """The limit of unread bytes for one tenant; all callers without a token count as one tenant."""
    max_unsent_bytes_of_connection: int = number(64 * 1024 * 1024, 1024 * 1024)
    """The limit of unread bytes for one connection."""
    log_level: LogLevel = LogLevel("info")
    access_log_every: int = number(0, 0)
    """0 logs failed requests only, 1 every request, n every n-th request."""
    metrics_host: str = "127.0.0.1"
    metrics_port: int = number(0, 0, 65_535)
    """Port for `/metrics`, separate from the API; 0 serves no metrics."""
    metrics_old_names: bool = True
    """Whether metrics also appear under their names of 0.2; release 0.4 removes this setting."""
    cors_origins: Origins = ()
    """Origins whose pages may read answers, separated by commas: `https://app.example.com`; or
    `*`."""
    stream_tickets: bool = False
    """Whether callers can get tickets that open a stream within a minute, without their token."""
    body_timeout_s: float = number(30.0, above=0)
    """Longest pause between two parts of a request body."""
    topic_repair_after_s: float = number(60.0, 5, 86_400)
    """Seconds before another process resumes a topic creation or deletion that a crash
    interrupted."""
    max_jobs: int = number(10_000, 1)
    """Jobs of a tenant, including ended jobs that are still kept."""
    max_job_tasks: int = number(1_000_000, 1)
    """Tasks of all jobs of a tenant."""
    max_job_bytes: int = number(4 * 1024**3, 1)
    """Bytes of the inputs and outputs of all jobs of a tenant; above it only outputs are
    accepted."""
    export_lakes: frozenset[str] = frozenset({"default"})
    """Names of the lakes that exports may write to, separated by commas: the lakes that runners
    have."""
    export_max_run_messages: int = number(20_000_000, 1)
    """Messages that one run of an export reads at most; another run reads the rest."""
    drain_s: float = number(10.0, 0)
    """Longest time from SIGTERM to exit."""
    linger_s: float = number(1.0, 0)
    """Time after SIGTERM in which connected clients still get answers: a balancer needs it to see
    that this process is not ready."""

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] = os.environ, **given: Any
    ) -> ServerSettings:
        """Read the settings; values in `given`, from the command line, override the environment
        unless they are None. Raises SettingsError."""
        settings = cls(**_read(cls, environment, given))
        if faults := list(settings._faults()):
            raise SettingsError(*faults)
        return settings

    def _faults(self) -> Iterator[str]:
        """Yield settings that are missing or contradict each other."""
        if not self.store_nodes:
            yield "PACKETBOAT_STORE_NODES is needed: 1=host:port,2=host:port,…"
        if self.role.subscribes and self.workers > 1:
            for name in ("link_port", "trace_file"):
                if getattr(self, f"subscribe_{name}"):
                    yield (
                        f"{PREFIX}SUBSCRIBE_{name.upper()} is one process's own and does not go"
                        f" with PACKETBOAT_WORKERS={self.workers} (--workers)"
                    )
        if self.store_secret is None:
            yield "PACKETBOAT_STORE_SECRET is needed: at least 16 bytes in hex"
        if self.ack_secret is None:
            if self.role.subscribes:
                yield "PACKETBOAT_ACK_SECRET is needed: at least 16 bytes in hex"
        elif any(len(key) > MAX_KEY_BYTES for key in self.ack_secret.every):
            yield f"PACKETBOAT_ACK_SECRET: a secret has at most {MAX_KEY_BYTES} bytes"
        if self.role.controls or self.role.subscribes:
            try:
                Sealer.from_text(self.seal_keys)
            except ValueError as error:
                yield f"PACKETBOAT_SEAL_KEYS is needed, id:hex32: {error}"
        if self.issuer and not _BASE_URL.fullmatch(self.issuer):
            told = shown(f"{PREFIX}ISSUER", self.issuer)
            yield f"{told}: a base URL, without query or slash at the end"
        if not self.audience:
            yield "PACKETBOAT_AUDIENCE may not be empty"
        if self.signing_algorithm not in ("RS256", "ES256"):
            yield f"{shown(f'{PREFIX}SIGNING_ALGORITHM', self.signing_algorithm)}: RS256 or ES256"
        if self.egress_proxy and not _PROXY.fullmatch(self.egress_proxy):
            told = shown(f"{PREFIX}EGRESS_PROXY", self.egress_proxy)
            yield f"{told}: http://host:port, or https://…"


@dataclass(frozen=True, slots=True)
class UpSettings:
    """`packetboat up`: everything on one machine."""

    data_dir: Path = Path(".packetboat")
    host: str = "127.0.0.1"
    port: int | None = field(default=None, metadata={BOUNDS: PORT})
    """None takes the port of the last start, else the first free port from 8080 on; 0 takes any
    free ports for everything."""
    database_url: str = field(default="", repr=False)
    """The Postgres to use; without a value, an embedded one is started."""
    exports: bool = True
    """Whether to start a runner of exports if Spark is installed."""
    log_level: LogLevel = LogLevel("info")

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] = os.environ, **given: Any
    ) -> UpSettings:
        """Read the settings as `ServerSettings` does. Raises SettingsError."""
        return cls(**_read(cls, environment, given))


def _read(kind: Any, environment: Mapping[str, str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that the environment or the command line sets. Raises SettingsError."""
    reader = Reader(environment)
    values: dict[str, Any] = {}
    for setting in fields(kind):
        variable, chosen = PREFIX + setting.name.upper(), given.get(setting.name)
        bounds, parse = bounds_of(setting), _READERS[str(setting.type)]
        is_set = variable in environment
        if chosen is not None:
            values[setting.name] = chosen
            option = "--" + setting.name.replace("_", "-")
            if bounds is not ANY and (fault := bounds.fault(chosen)) is not None:
                reader.faults.append(f"{option} {chosen} ({variable}): {fault}")
        elif is_set:
            if isinstance(parse, type) and issubclass(parse, int | float):
                parse = partial(within, parse, bounds)
            value = reader.read(variable, parse, None, secret=not setting.repr)
            values[setting.name] = value
    reader.done()
    return values


def log_level(environment: Mapping[str, str] = os.environ) -> str:
    """Read the log level for processes without other settings here. Raises SettingsError."""
    reader = Reader(environment)
    level = reader.read(f"{PREFIX}LOG_LEVEL", _log_level, LogLevel("info"))
    reader.done()
    return level


def cluster_uid(environment: Mapping[str, str] = os.environ) -> bytes:
    """Read the uid of the store, which only operators' commands need. Raises SettingsError."""
    text = environment.get(f"{PREFIX}CLUSTER_UID", "")
    try:
        uid = bytes.fromhex(text)
    except ValueError:
        uid = b""
    if len(uid) != CLUSTER_UID_BYTES:
        raise SettingsError(f"{PREFIX}CLUSTER_UID is needed, {CLUSTER_UID_BYTES} bytes in hex")
    return uid


def inherited_environment() -> dict[str, str]:
    """Return a copy of the environment for a child process."""
    return dict(os.environ)


def replace_environment(environment: Mapping[str, str]) -> None:
    """Give a process that was forked the environment that it was asked to have."""
    os.environ.clear()
    os.environ.update(environment)


def set_metrics_directory(directory: str) -> None:
    """Set the directory of shared metrics; prometheus_client reads it once, at its import."""
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = directory


def metrics_are_shared() -> bool:
    return "PROMETHEUS_MULTIPROC_DIR" in os.environ


def format_addresses(addresses: Mapping[int, Address]) -> str:
    return ",".join(f"{node}={host}:{port}" for node, (host, port) in sorted(addresses.items()))


def _ports(text: str) -> tuple[int, ...]:
    try:
        ports = tuple(int(port) for port in text.split(","))
    except ValueError:
        ports = (0,)
    if not all(0 < port < 65536 for port in ports):
        raise ValueError("ports are numbers from 1 to 65535, with commas between")
    return ports


def _origins(text: str) -> Origins:
    origins = tuple(each.strip() for each in text.split(",") if each.strip())
    if origins != ("*",) and not all(_ORIGIN.fullmatch(each) for each in origins):
        raise ValueError("origins as in https://app.example.com, with commas between, or * alone")
    return origins


def _lakes(text: str) -> frozenset[str]:
    names = frozenset(name for name in (each.strip() for each in text.split(",")) if name)
    if not all(re.fullmatch(NAME, name) for name in names):
        raise ValueError("names of letters, digits, '.', '_' and '-', with commas between")
    return names


def _log_level(text: str) -> LogLevel:
    if text.upper() not in logging.getLevelNamesMapping():
        raise ValueError("one of debug, info, warning, error")
    return LogLevel(text)


def _one_of(kind: type[enum.Enum]) -> Callable[[str], enum.Enum]:
    """Return a parser of the values of an enumeration."""

    def read(text: str) -> enum.Enum:
        try:
            return kind(text)
        except ValueError:
            known = ", ".join(str(each.value) for each in kind)
            raise ValueError(f"one of {known}") from None

    return read


def _hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ValueError("bytes in hex") from None


_READERS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "int": int,
    "int | None": int,
    "float": float,
    "bool": boolean,
    "bytes": _hex,
    "LogLevel": _log_level,
    "SharedSecret | None": SharedSecret.from_text,
    "Role": _one_of(Role),
    "Listener": _one_of(Listener),
    "Path": Path,
    "Path | None": Path,
    "dict[int, Address]": parse_peers,
    "tuple[str, ...]": parse_allowances,
    "tuple[int, ...]": _ports,
    "Origins": _origins,
    "frozenset[str]": _lakes,
}
