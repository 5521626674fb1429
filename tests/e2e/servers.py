"""Servers of their own, on the Postgres and store of a running installation."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import requests

from auth.development import token_hash
from gateway.up.data_dir import free_port
from harness.fork_server import Forked
from metadata.postgres.embedded import EmbeddedPostgres
from tests.e2e.installation import START_S, Installation

StartServer = Callable[..., str]


@contextmanager
def servers(
    running: Installation, logs: Path, *, program: str = "gateway"
) -> Iterator[StartServer]:
    """Within, a call starts `packetboat serve` with the installation's parts, and returns the URL.
    Its options are those of the command; `settings` are variables; the program has the command."""
    state = json.loads((running.directory / "state.json").read_text())
    nodes = [f"{n}=127.0.0.1:{port}" for n, port in enumerate(state["ports"]["store"], 1)]
    postgres = EmbeddedPostgres(running.directory / "postgres", port=state["ports"]["postgres"])
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PACKETBOAT_")}
    environment |= {
        "PACKETBOAT_DATABASE_URL": postgres.url,
        "PACKETBOAT_STORE_NODES": ",".join(nodes),
        "PACKETBOAT_STORE_SECRET": state["store_secret"],
        "PACKETBOAT_ACK_SECRET": state["ack_secret"],
        "PACKETBOAT_SEAL_KEYS": state["seal_keys"],
        "PACKETBOAT_ISSUER": running.url,
        "PACKETBOAT_DEV_TOKEN_SHA256": token_hash(running.token),
    }
    processes: list[subprocess.Popen[bytes]] = []

    def start(role: str, *options: str, settings: dict[str, str] | None = None) -> str:
        port = free_port("127.0.0.1")
        arguments = ["serve", "--role", role, "--port", str(port), *options]
        given = environment | (settings or {})
        with (logs / f"{role}.log").open("wb") as log:
            processes.append(Forked(program, arguments, env=given, stdout=log, stderr=log))
        return f"http://127.0.0.1:{port}"

    try:
        yield start
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        codes = [process.wait(20) for process in processes]
    assert codes == [0] * len(codes), [p.read_text() for p in logs.glob("*.log")]


def wait_for(url: str, wanted: int, seconds: float = START_S) -> dict[str, object]:
    """Return the body of /readyz once it has that status."""
    deadline_s = time.monotonic() + seconds
    last: object = None
    while time.monotonic() < deadline_s:
        try:
            answer = requests.get(f"{url}/readyz", timeout=5)
        except requests.RequestException as error:
            last = error
        else:
            last = answer.text
            body: dict[str, object] = answer.json()
            if answer.status_code == wanted and "metadata" not in str(body.get("reasons")):
                return body
        time.sleep(0.1)
    raise AssertionError(f"{url}: {last}")


def until_taken(call: Callable[[], requests.Response]) -> requests.Response:
    """The first answer that is no 503, which must be a success: a client asks again after a 503."""
    for _ in range(50):
        answer = call()
        if answer.status_code != 503:
            break
        time.sleep(0.1)
    assert answer.ok, answer.text
    return answer
