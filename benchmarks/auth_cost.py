"""The cost of checking the caller of a publish: `python -m benchmarks.auth_cost [--rounds 3]`.

Publishes 1 KB messages, one per POST over 32 connections (wrk), to one `packetboat up`, in turns
with the development token, an API key, and an access token of a client with a policy. Prints for
each the server's CPU a message and, beside it, the CPU of the check alone: the code that runs for
every request between its head and its handler, timed in this process with the same tokens. Fails if
the check is over 10 % of a publish.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import shutil
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from auth.permissions import Permission
from auth.policies import parse_scope
from auth.principal import Principal
from auth.verifier import CachingVerifier
from benchmarks import wrk
from benchmarks.packetboat_cluster import PacketboatCluster, pause
from edge.asgi import Receive, Scope, Send
from gateway.http.router import Endpoint
from gateway.middleware.auth import bearer_token
from harness.made_up_routes import made_up
from harness.measure import median
from harness.processes import NotReady

TOPIC = "bench"
CONNECTIONS = 32
MOST = 0.10
CHECKS = 100_000
Row = dict[str, Any]


def call(
    cluster: PacketboatCluster, method: str, path: str, body: bytes, authorization: str
) -> dict[str, Any]:
    """Send a request and return its JSON answer. Raises NotReady."""
    headers = {"Authorization": authorization, "Content-Type": "application/json"}
    if path.startswith("/oauth/"):
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    asked = urllib.request.Request(cluster.url + path, body, headers, method=method)
    try:
        with urllib.request.urlopen(asked, timeout=20) as answer:
            found: dict[str, Any] = json.loads(answer.read())
    except urllib.error.HTTPError as error:
        raise NotReady(f"{method} {path}: {error.code} {error.read()[:300]!r}") from error
    return found


def tokens(cluster: PacketboatCluster) -> dict[str, str]:
    """Return a token of each kind that may publish to the topic."""
    owner = f"Bearer {cluster.token}"
    key = {"scopes": [f"publish:topics/{TOPIC}"]}
    made_key = call(cluster, "PUT", "/keys/bench", json.dumps(key).encode(), owner)
    client = call(cluster, "PUT", "/clients/bench", b"{}", owner)
    policy = {
        "role": "publisher",
        "members": ["client:bench"],
        "resources": [f"topics/{TOPIC[:3]}*"],
    }
    call(cluster, "PUT", "/policies/bench", json.dumps(policy).encode(), owner)
    pair = f"{client['client_id']}:{client['client_secret']}".encode()
    form = urllib.parse.urlencode({"grant_type": "client_credentials"}).encode()
    basic = "Basic " + base64.b64encode(pair).decode()
    granted = call(cluster, "POST", "/oauth/token", form, basic)
    return {
        "development token": cluster.token,
        "API key": str(made_key["key"]),
        "access token": str(granted["access_token"]),
    }


class _Known:
    """A verifier for the check alone: who it is, is asked of Postgres or of a signature once."""

    async def verify(self, token: bytes) -> Principal:
        grant = parse_scope(f"publish:topics/{TOPIC}")
        return Principal(bytes(16), "client:bench", frozenset({grant}))


async def _handler(scope: Scope, receive: Receive, send: Send) -> None:
    raise NotImplementedError


def check_us(token: str) -> float:
    """Return the CPU of one check, as the dispatcher makes it."""
    route = made_up(
        "POST",
        "/topics/{topic}/messages",
        _handler,
        Permission.PUBLISH.value,
        "topic:topic",
    )
    endpoint, verifier = Endpoint(route), CachingVerifier(_Known())
    header, params = f"Bearer {token}".encode(), {"topic": TOPIC}
    asyncio.run(verifier.verify(bearer_token(header)))
    began_s = time.process_time()
    for _ in range(CHECKS):
        principal = verifier.cached(bearer_token(header))
        assert principal is not None
        endpoint.check(principal.caller, params)
    return (time.process_time() - began_s) / CHECKS * 1e6


def measure(options: argparse.Namespace) -> list[Row]:
    root = Path(tempfile.mkdtemp(prefix="packetboat-auth-"))
    root.chmod(0o711)  # Postgres runs as a lesser account when we are root.
    cluster = PacketboatCluster(root / "packetboat")
    spent: dict[str, list[float]] = {}
    try:
        cluster.start()
        cluster.create("/topics", {"name": TOPIC})
        kinds = tokens(cluster)
        url = f"{cluster.url}/topics/{TOPIC}/messages"
        for number in range(options.rounds):
            names = list(kinds)[number % 3 :] + list(kinds)[: number % 3]
            for name in names:
                before = cluster.cpu_by_part()["server"]
                result = wrk.post(
                    url,
                    kinds[name],
                    connections=CONNECTIONS,
                    seconds=options.seconds,
                    directory=root,
                )
                if result["failed"]:
                    raise NotReady(f"{name}: {result['failed']} of {result['n']} failed")
                cpu_s = cluster.cpu_by_part()["server"] - before
                spent.setdefault(name, []).append(cpu_s / result["n"] * 1e6)
                pause()
    finally:
        cluster.stop()
        shutil.rmtree(root, ignore_errors=True)
    rows = []
    for name, token in kinds.items():
        publish, check = median(spent[name]), check_us(token)
        rows.append(
            {
                "token": name,
                "bytes": len(token),
                "server_us": round(publish, 1),
                "check_us": round(check, 2),
                "share": round(check / publish, 4),
                "good": check / publish <= MOST,
            }
        )
    return rows


def main() -> int:
    """Exit status 1 when a check costs too much."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    rows = measure(parser.parse_args())
    for row in rows:
        print(json.dumps(row), flush=True)
    return 0 if all(row["good"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
