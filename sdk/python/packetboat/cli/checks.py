"""The checks of `packetboat doctor`.

Each yields findings: a result, good or bad, and the fix. No check changes anything on the server.
"""

from __future__ import annotations

import enum
import json
import re
import socket
import ssl
import stat
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from packetboat.cli.target import Target
from packetboat.errors import PacketboatError
from packetboat.transport import Request, Response, Transport

SLOW_S = 1.0
SKEW_WARN_S, SKEW_FAIL_S = 5.0, 60.0
CERTIFICATE_WARN_DAYS = 14
TOKEN_WARN_S = 600.0
TIMEOUT_S = 10.0
_LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})


class Level(enum.StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(NamedTuple):
    """A line of the report."""

    check: str
    level: Level
    detail: str
    fix: str | None = None


def profile_file(file: Path) -> Iterator[Finding]:
    """Secrets are for their owner alone."""
    if not file.exists():
        return
    mode = stat.S_IMODE(file.stat().st_mode)
    if mode & 0o077:
        yield Finding("profiles", Level.FAIL, f"{file} is readable by others", f"chmod 600 {file}")
    else:
        yield Finding("profiles", Level.OK, f"{file} is yours alone")


def connection(target: Target, transport: Transport) -> tuple[list[Finding], Response | None]:
    """Check whether the server answers; return the answer, which has the server's time."""
    url = target.urls[0]
    began_s = time.monotonic()
    try:
        response = transport.send(Request("GET", "/healthz", timeout_s=TIMEOUT_S))
    except PacketboatError as error:
        fix = f"is the server up at {url} (from {target.url_from})? `packetboat up` starts one here"
        return [Finding("connection", Level.FAIL, f"{url}: {error}", fix)], None
    taken_s = time.monotonic() - began_s
    if response.status != 200 or b'"status"' not in response.body:
        fix = "is this Packetboat's address, and not a proxy's?"
        detail = f"{url}/healthz answers {response.status}"
        return [Finding("connection", Level.FAIL, detail, fix)], None
    detail = f"{url} answers in {taken_s * 1000:.0f} ms ({target.url_from})"
    if taken_s > SLOW_S:
        fix = "look at the way there, and at the load of the server"
        return [Finding("connection", Level.WARN, detail, fix)], response
    return [Finding("connection", Level.OK, detail)], response


def encryption(target: Target) -> Iterator[Finding]:
    """Check whether others can read the connection, and when the certificate ends."""
    for url in target.urls:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme != "https":
            if host not in _LOCAL:
                detail = f"{url}: credentials and messages go unencrypted"
                yield Finding("tls", Level.WARN, detail, "use https, or a tunnel")
            continue
        try:
            ends_s = _certificate_ends_s(host, parts.port or 443, target.profile.ca_file)
        except (OSError, ssl.SSLError, ValueError) as error:
            fix = "check the certificate; `packetboat config set … ca_file` names who signed it"
            yield Finding("tls", Level.FAIL, f"{url}: {error}", fix)
            continue
        days = (ends_s - time.time()) / 86400
        level = Level.WARN if days < CERTIFICATE_WARN_DAYS else Level.OK
        detail = f"{url}: the certificate holds for {days:.0f} days"
        renew = "renew the certificate" if level is Level.WARN else None
        yield Finding("tls", level, detail, renew)


def _certificate_ends_s(host: str, port: int, ca_file: str | None) -> float:
    context = ssl.create_default_context(cafile=ca_file)
    with (
        socket.create_connection((host, port), TIMEOUT_S) as plain,
        context.wrap_socket(plain, server_hostname=host) as secure,
    ):
        certificate: dict[str, Any] = secure.getpeercert() or {}
        return float(ssl.cert_time_to_seconds(certificate["notAfter"]))


def clock(response: Response, now_s: float) -> Iterator[Finding]:
    """Compare our clock with the server's, which decides about tokens and delays."""
    date = response.headers.get("date")
    if date is None:
        return
    skew_s = now_s - parsedate_to_datetime(date).timestamp()
    # The header has whole seconds: it is up to one second behind.
    skew_s = 0.0 if 0 <= skew_s <= 1 else skew_s
    detail = f"this computer's clock is {abs(skew_s):.0f} s {'ahead' if skew_s > 0 else 'behind'}"
    if abs(skew_s) < SKEW_WARN_S:
        yield Finding("clock", Level.OK, "as the server's, to within seconds")
    else:
        level = Level.FAIL if abs(skew_s) >= SKEW_FAIL_S else Level.WARN
        yield Finding("clock", level, detail, "synchronise both by NTP")


def readiness(transport: Transport) -> Iterator[Finding]:
    """Report Postgres, the store and its leaders, and signing keys, as the server's
    readiness has them.
    """
    try:
        response = transport.send(Request("GET", "/readyz", timeout_s=TIMEOUT_S))
    except PacketboatError as error:
        yield Finding("readiness", Level.FAIL, str(error))
        return
    if response.status == 200:
        yield Finding("readiness", Level.OK, "the server is ready: Postgres, store, leaders")
        for name, warning in _object(response, "warnings").items():
            yield Finding(name, Level.FAIL, warning, _READY_FIXES.get(name))
        return
    for name, reason in _reasons(response).items():
        yield Finding(f"readiness: {name}", Level.FAIL, reason, _READY_FIXES.get(name))


_READY_FIXES = {
    "metadata": "is Postgres up, and PACKETBOAT_DATABASE_URL right? see the server's log",
    "store": "`packetboat store status` shows nodes, leaders and disks",
    "signing_keys": "`packetboat signing-keys list`; has the server its PACKETBOAT_SEAL_KEYS?",
    "subscribe": "`packetboat forwarders` shows who delivers",
    "disk": "make room there: docs/operations/disk-full.md; until then publishes are answered 507",
    "server": "it is ending; another process should serve you",
}


def _reasons(response: Response) -> dict[str, str]:
    return _object(response, "reasons") or {"server": f"/readyz answers {response.status}"}


def _object(response: Response, name: str) -> dict[str, str]:
    """Return a member of the answer; empty where it is not there."""
    try:
        answer = json.loads(response.body)
    except ValueError:
        return {}
    found = answer.get(name) if isinstance(answer, dict) else None
    return found if isinstance(found, dict) else {}


def version(transport: Transport, ours: str) -> Iterator[Finding]:
    """Compare the versions: a client and a server of the same minor version fit each other."""
    try:
        response = transport.send(Request("GET", "/openapi.json", timeout_s=TIMEOUT_S))
        theirs = str(json.loads(response.body)["info"]["version"])
    except (PacketboatError, ValueError, KeyError, TypeError):
        yield Finding("version", Level.WARN, "the server does not say its version")
        return
    detail = f"server {theirs}, this command {ours}"
    if theirs.split(".")[:2] == ours.split(".")[:2]:
        yield Finding("version", Level.OK, detail)
    else:
        yield Finding(
            "version", Level.WARN, detail, "have the client and the server of one release"
        )


_GAUGES: tuple[tuple[str, str, str], ...] = (
    (
        "packetboat_breaker_state",
        "{labels} is failing: calls to it are cut short",
        "readiness above",
    ),
    (
        "packetboat_scheduler_full_topics",
        "{value:.0f} topics are full",
        "`packetboat topics list`",
    ),
    (
        "packetboat_store_orphaned_topics",
        "the store has {value:.0f} topics that Postgres does not know",
        "`packetboat store orphans`, `packetboat adopt`",
    ),
    (
        "packetboat_subscribe_unbalanced_cursors",
        "{value:.0f} cursors do not balance",
        "`packetboat subscriptions reconcile NAME`, and the server's log",
    ),
    (
        "packetboat_load_overloaded_ratio",
        "the server is overloaded, and refuses part of what comes",
        "more processes, or fewer requests",
    ),
)
_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


def metrics(transport: Transport) -> Iterator[Finding]:
    """Check the counters of a process, at the address of its metrics."""
    try:
        response = transport.send(Request("GET", "/metrics", timeout_s=TIMEOUT_S))
        fault = None if response.status == 200 else f"/metrics answers {response.status}"
    except PacketboatError as error:
        fault = str(error)
    if fault is not None:
        fix = "is it PACKETBOAT_METRICS_PORT of a server, and reached from here?"
        yield Finding("metrics", Level.FAIL, fault, fix)
        return
    texts = {name: (text, fix) for name, text, fix in _GAUGES}
    samples = _SAMPLE.findall(response.body.decode("utf-8", "replace"))
    # A server of 0.2 tells `…_count`, one of 0.3 that and the name without: each counts once.
    values = {
        (name.removesuffix("_count"), labels): float(value) for name, labels, value in samples
    }
    bad = {key: value for key, value in values.items() if key[0] in texts and value > 0}
    for (name, labels), value in bad.items():
        text, fix = texts[name]
        yield Finding("server", Level.WARN, text.format(labels=labels, value=value), fix)
    if not bad:
        yield Finding(
            "server", Level.OK, "not overloaded; nothing full, orphaned or out of balance"
        )


def token(who: dict[str, Any], now: datetime) -> Iterator[Finding]:
    """Report the content of /whoami."""
    detail = f"{who['subject']} of the tenant {who['tenant']}"
    roles = who.get("roles") or []
    named = ", ".join(sorted({each["role"] for each in roles}))
    if not roles and not who.get("grants"):
        yield Finding(
            "permissions", Level.FAIL, f"{detail} may do nothing", "ask an owner for a role"
        )
    else:
        yield Finding("credential", Level.OK, f"{detail}{f' ({named})' if named else ''}")
    if who.get("expires_at"):
        left_s = (datetime.fromisoformat(who["expires_at"]) - now.astimezone(UTC)).total_seconds()
        if left_s < TOKEN_WARN_S:
            fix = "get a new one, or `packetboat login --client-id …`, which does so by itself"
            yield Finding("credential", Level.WARN, f"it ends in {left_s:.0f} s", fix)
