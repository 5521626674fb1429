"""Every bound between a socket and a disk: what it protects, and what a caller is answered.

This is the one list of them. `make bounds-docs` writes docs/operations/bounds.md of it, which a
test holds in step; `edge/shares.py` divides the bounds that tenants share.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from edge import large_bodies, process_pool, worker
from edge.expressions import ahead
from gateway import write_limit
from gateway.admission import admission
from gateway.configuration.settings import ServerSettings
from gateway.exports import waits as export_waits
from gateway.http import request
from gateway.jobs import end_watch
from gateway.jobs import waits as job_waits
from gateway.locks import wait_list
from gateway.oauth import endpoints
from gateway.quotas.settings import QuotaSettings
from metadata.connection_shares import OF_TENANT, OF_TENANTS
from metadata.exports import exports
from metadata.locks import locks
from metadata.settings import DatabaseSettings
from metadata.subscriptions import skip_rules, snapshots
from metadata.topics import schemas
from openapi.consume import MAX_OUTPUTS
from peering.rpc import frames, handshake, listening
from publish_forwarder import batch_body
from publish_forwarder.settings import PublishSettings
from subscribe_forwarder.api import preview
from subscribe_forwarder.delivery.reading import replay
from subscribe_forwarder.settings import SubscribeSettings

PAGE = Path(__file__).parents[2] / "docs/operations/bounds.md"
REFUSED = "packetboat_bound_refused_total"
"""The metric has the name of the bound as its label."""
HALF = "half"
_CONNECTIONS_SHARE = f"{OF_TENANTS * OF_TENANT:.0%}; {1 - OF_TENANTS:.0%} is the platform's"
_NO_TURN = (
    "none: tenants take turns; after `PACKETBOAT_DATABASE_CONNECT_TIMEOUT_S` without one 503 "
    "`metadata-unavailable`"
)
_PREFIXES = {
    ServerSettings: "",
    PublishSettings: "PUBLISH_",
    SubscribeSettings: "SUBSCRIBE_",
    QuotaSettings: "QUOTA_",
    DatabaseSettings: "DATABASE_",
}


class Bound(NamedTuple):
    """One bound. `share`: what one tenant may have of it, where tenants share it."""

    name: str
    protects: str
    limit: float
    answer: str
    share: str = ""
    setting: str = ""
    metric: str = ""


class Area(NamedTuple):
    """Bounds of one part of the way, in its order."""

    title: str
    bounds: tuple[Bound, ...]


def _set(
    kind: type,
    field: str,
    protects: str,
    answer: str,
    share: str = "",
    metric: str = "",
) -> Bound:
    """Return a bound that a setting changes; its default is the setting's."""
    (found,) = [each for each in dataclasses.fields(kind) if each.name == field]
    assert isinstance(found.default, int | float)
    setting = f"PACKETBOAT_{_PREFIXES[kind]}{field.upper()}"
    return Bound(field, protects, found.default, answer, share, setting, metric)


def _shared(name: str, protects: str, limit: float, answer: str, share: str = HALF) -> Bound:
    """Return a bound of a process, named as its `Shares` is."""
    return Bound(name, protects, limit, answer, share, metric=f'{REFUSED}{{bound="{name}"}}')


def _quota(name: str, protects: str, answer: str = "403 `quota-exceeded`") -> Bound:
    return _set(QuotaSettings, name, protects, answer, "own limit")


AREAS = (
    Area(
        "Connections and requests, of a process",
        (
            _set(
                ServerSettings,
                "max_connections",
                "descriptors and memory",
                "503 `too-many-connections`, closed",
                metric="packetboat_gateway_connections_refused_total",
            ),
            _set(
                ServerSettings,
                "max_connections_of_address",
                "other addresses' connections",
                "503 `too-many-connections`, closed",
            ),
            Bound("head_bytes", "memory of a connection", request.MAX_HEAD_BYTES, "431, closed"),
            Bound("header_fields", "time to read a head", request.MAX_FIELDS, "431"),
            _set(
                ServerSettings,
                "max_requests",
                "memory and the event loop",
                "503 `overloaded`",
                f"{admission.ALONE:.0%}",
                "packetboat_admission_refused_total",
            ),
            _set(
                ServerSettings,
                "max_waiting",
                "memory: long-polls and streams",
                "503 `overloaded`",
                f"{admission.ALONE:.0%}",
                "packetboat_admission_refused_total",
            ),
            _set(
                ServerSettings,
                "max_request_bytes",
                "memory: bodies of requests",
                "503 `overloaded`",
                f"{admission.ALONE:.0%}",
                "packetboat_admission_refused_total",
            ),
            _set(
                ServerSettings,
                "max_unsent_bytes",
                "memory: answers not sent",
                "the connection is ended",
            ),
            _set(
                ServerSettings,
                "max_unsent_bytes_of_tenant",
                "memory: answers to one tenant not sent",
                "the connection is ended",
            ),
            _set(
                ServerSettings,
                "max_unsent_bytes_of_connection",
                "memory: answers on one connection not sent",
                "the connection is ended",
            ),
            Bound(
                "peer_handshakes_per_second",
                "the event loop: handshakes of TLS at a port of peers, of one address",
                listening.HANDSHAKES_PER_S,
                "the connection is closed",
                metric='packetboat_peer_connections_refused_total{why="rate"}',
            ),
            Bound(
                "peer_handshake_seconds",
                "descriptors: connections at a port of peers that have not proved the secret",
                handshake.HANDSHAKE_TIMEOUT_S,
                "the connection is ended",
            ),
            Bound(
                "peer_handshake_bytes",
                "memory: what such a connection may send",
                frames.HANDSHAKE_FRAME_BYTES,
                "the connection is ended",
            ),
        ),
    ),
    Area(
        "Publishing, of a process",
        (
            Bound(
                "message_bytes",
                "memory, the log",
                batch_body.MAX_MESSAGE_BYTES,
                "413 `payload-too-large`",
            ),
            Bound(
                "ack_outputs",
                "one transaction",
                MAX_OUTPUTS,
                "422; beyond the tenant's publish rate 429 `rate-limited`",
            ),
            _set(
                PublishSettings,
                "max_in_flight_bytes",
                "memory: accepted and not answered",
                "503 `publish-overloaded`; beyond the share 429 `too-many-in-flight`",
                HALF,
                "packetboat_publish_overload_refusals_total",
            ),
            _set(
                PublishSettings,
                "max_in_flight_messages",
                "memory: accepted and not answered",
                "as above",
                HALF,
                "packetboat_publish_overload_refusals_total",
            ),
            _set(
                PublishSettings,
                "max_group_bytes",
                "a group's leader: sent and not answered",
                "none: tenants take turns",
                "by weight",
            ),
        ),
    ),
    Area(
        "Reading, of a process",
        (
            _shared("replays", "memory, the store", replay.MAX_REPLAYS, "503 `too-many-replays`"),
            Bound(
                "replay_answers",
                "memory: answers of replays and parts of streams, read and not written",
                replay.MAX_ANSWERS,
                "none: tenants take turns",
                HALF,
            ),
            _shared(
                "replay_bytes",
                "memory: messages fetched for streams whose clients have not taken those before",
                replay.KEPT_BYTES,
                "none: they are fetched again",
            ),
            _shared("previews", "the event loop", preview.MAX_PREVIEWS, "503 `too-many-replays`"),
            _set(
                SubscribeSettings,
                "max_backlog_streams",
                "memory",
                "503 `too-many-backlog-streams`",
                HALF,
                f'{REFUSED}{{bound="backlog_streams"}}',
            ),
            _set(
                SubscribeSettings,
                "max_waiting_pulls",
                "memory, of one subscription",
                "503 `too-many-waiting-pulls`",
            ),
            _set(
                SubscribeSettings,
                "max_outstanding",
                "memory, of one subscription",
                "hand-outs pause",
            ),
            _set(SubscribeSettings, "max_exceptions", "Postgres, of one cursor", "hand-outs pause"),
            _set(SubscribeSettings, "cache_bytes", "memory: decoded messages", "none"),
        ),
    ),
    Area(
        "Work that takes long: bodies, schemas and expressions, of a process",
        (
            Bound(
                "read_here_bytes",
                "the event loop",
                large_bodies.HERE_BYTES,
                "none: a worker process reads the body",
            ),
            Bound(
                "read_here_values",
                f"the event loop: of a body over {large_bodies.SMALL_BYTES} bytes",
                large_bodies.MAX_VALUES_HERE,
                "as above",
            ),
            Bound(
                "new_filters_at_once",
                f"the event loop: of filters over {ahead.SHORT_CHARS} characters",
                ahead.AT_ONCE,
                "none: tenants take turns",
            ),
            Bound(
                "new_filters_part",
                "the event loop: CPU time of its thread",
                ahead.PART,
                "none: they are read in pieces",
            ),
            Bound(
                "work_processes",
                "processors, memory",
                process_pool.WORKERS,
                "none: tenants take turns",
                HALF,
            ),
            Bound(
                "work_seconds",
                "the worker processes: CPU time of one call",
                process_pool.LIMIT_S,
                "413, or 422; a filter is no match",
            ),
            Bound(
                "work_wall_seconds",
                "the worker processes: one call on a machine with too much to do",
                process_pool.WALL_S,
                "as above",
            ),
            Bound(
                "work_memory_bytes",
                "memory, of a worker process",
                worker.MAX_MEMORY_BYTES,
                "as above",
            ),
            Bound(
                "work_seconds_per_second",
                "processors: CPU time of one tenant",
                process_pool.CPU_PART,
                "429 `work-limited`",
            ),
            Bound(
                "work_burst_seconds",
                "processors: CPU time that a tenant may use at once",
                process_pool.CPU_BURST_S,
                "429 `work-limited`",
            ),
            Bound(
                "work_waiting",
                "memory",
                process_pool.ALL_WAITING,
                "429 `work-limited`",
                f"{process_pool.MAX_WAITING / process_pool.ALL_WAITING:.2%}",
            ),
        ),
    ),
    Area(
        "Calls that wait, of a process",
        (
            _shared("claim_waits", "memory", job_waits.MAX_WAITING, "503 `too-many-claim-waits`"),
            _shared(
                "claim_tries",
                "memory: claims that wait for a connection to Postgres",
                job_waits.MAX_WAITING,
                "503 `too-many-claim-waits`",
            ),
            _shared(
                "job_waits", "memory", end_watch.MAX_WAITING, "200 at once, with the job as it is"
            ),
            _shared(
                "lock_waits", "memory", wait_list.MAX_WAITING_IN_ALL, "503 `too-many-lock-waits`"
            ),
            Bound(
                "waits_of_a_lock",
                "memory, of one lock",
                wait_list.MAX_WAITING,
                "503 `too-many-lock-waits`",
            ),
            _shared(
                "export_claim_waits",
                "memory",
                export_waits.MAX_WAITING,
                "503 `too-many-claim-waits`",
                "all: runners are the platform's",
            ),
            _shared(
                "oauth_waits",
                "memory: answers to wrong secrets",
                endpoints.MAX_WAITING,
                "429",
                "half, for one client id",
            ),
        ),
    ),
    Area(
        "Changes of the control plane, of a process",
        (
            Bound(
                "control_writes_at_once",
                "connections to Postgres, and the row that every change ends with",
                write_limit.AT_ONCE,
                "none: tenants take turns",
                "a quarter",
            ),
            _shared("control_writes", "memory", write_limit.MAX_WAITING, "429 `too-many-changes`"),
            _set(
                ServerSettings,
                "control_writes_per_second",
                "Postgres, of one tenant",
                "none: they wait",
            ),
        ),
    ),
    Area(
        "Operations on Postgres, of a process",
        (
            _set(
                DatabaseSettings,
                "data_connections",
                "connections to Postgres: acks, leases, locks, claims",
                _NO_TURN,
                _CONNECTIONS_SHARE,
            ),
            _set(
                DatabaseSettings,
                "control_connections",
                "connections to Postgres: changes and reads of topics and other objects",
                _NO_TURN,
                _CONNECTIONS_SHARE,
            ),
            _set(
                DatabaseSettings,
                "max_operations",
                "Postgres, memory",
                "503 `metadata-unavailable`",
                f"{HALF}; the platform has as many of its own",
                f'{REFUSED}{{bound="postgres_operations"}}',
            ),
        ),
    ),
    Area(
        "Objects and bytes of a tenant",
        (
            _quota("topics", "Postgres, the store"),
            _quota("subscriptions", "Postgres, forwarders"),
            _quota("policies", "Postgres, the event loop"),
            _quota("policy_members", "the event loop: all are matched when a token is seen first"),
            _quota("clients", "Postgres"),
            _quota("keys", "Postgres"),
            _quota("issuers", "Postgres, requests to the outside"),
            _quota("schemas", "Postgres"),
            _quota("schedules", "Postgres, the scheduler"),
            Bound(
                "schema_versions",
                "Postgres, of one schema",
                schemas.MAX_VERSIONS,
                "409 `too-many-versions`",
            ),
            Bound(
                "snapshots",
                "Postgres, the store",
                snapshots.MAX_SNAPSHOTS,
                "409 `too-many-snapshots`",
            ),
            Bound(
                "skip_rules", "the event loop, of one subscription", skip_rules.MAX_ACTIVE, "412"
            ),
            Bound("locks", "Postgres", locks.MAX_LOCKS, "409 `too-many-locks`"),
            Bound("exports", "Postgres", exports.MAX_EXPORTS, "409 `too-many-exports`"),
            _set(ServerSettings, "max_jobs", "Postgres", "429 `too-many-stored`", "own limit"),
            _set(ServerSettings, "max_job_tasks", "Postgres", "429 `too-many-stored`", "own limit"),
            _set(ServerSettings, "max_job_bytes", "Postgres", "429 `too-many-stored`", "own limit"),
            _quota("stored_bytes", "disks of the store", "507 `tenant-full`"),
        ),
    ),
)
_HEAD = """\
# Every bound, and what a caller is answered

Made of `gateway/configuration/bounds.py` by `make bounds-docs`. *Share*: what one tenant may have
of it; from three quarters of such a bound on, a tenant has no more than its part by weight of all
who hold something, so that one that comes next finds room. A default of 0 is no limit. A tenant
that has more objects than a limit at an upgrade keeps all of them, and makes no more until some are
deleted. The defaults of `topics`, `subscriptions` and `stored_bytes` do not hold for a tenant of an
earlier release, until its operator [says otherwise](upgrade.md#what-030-asks-for).

An address of IPv6 is a /64. A port of peers has no rate of connections in plain text: one that
proves no secret takes less than 0.2 ms of the event loop, a fifth of a handshake of TLS, and ends
after `peer_handshake_seconds`. Thousands a second still use up the descriptors of a process, so
keep such ports in a network of the platform's own, whose hosts you trust, or require
[TLS](peer-tls.md).
"""


def page() -> str:
    """Return the text of docs/operations/bounds.md."""
    return _HEAD + "".join(_lines())


def _lines() -> Iterator[str]:
    for area in AREAS:
        yield f"\n## {area.title}\n\n"
        yield "| bound | default | share | protects | beyond it | setting | metric |\n"
        yield "|---|---|---|---|---|---|---|\n"
        for one in area.bounds:
            setting, metric = (f"`{text}`" if text else "" for text in (one.setting, one.metric))
            cells = (one.name, f"{one.limit:.15g}", one.share, one.protects, one.answer)
            yield "| " + " | ".join((*cells, setting, metric)) + " |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
