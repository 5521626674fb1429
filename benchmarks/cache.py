"""The cache of programs that only the peers need.

It has a NATS binary and a virtual environment with the peers' Python clients, which are made once.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.settings import cache_home
from harness.processes import NotReady
from harness.settings import inherited_environment

NATS_VERSION = "v2.10.29"
NATS_MODULE = f"github.com/nats-io/nats-server/v2@{NATS_VERSION}"
NATS_OLDEST = (2, 10)
"""Oldest version with `sync_interval: always`."""
CLIENTS = ("nats-py==2.16.0", "aio-pika==10.2.1", "uvloop==0.23.0")


def cache_dir() -> Path:
    """Return the cache's directory, which is made if it is missing."""
    path = cache_home() / "packetboat-bench"
    path.mkdir(parents=True, exist_ok=True)
    return path


def _nats_version(binary: str) -> tuple[int, ...]:
    output = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=20)
    found = re.search(r"v(\d+)\.(\d+)\.(\d+)", output.stdout)
    return tuple(int(part) for part in found.groups()) if found else (0,)


def nats_server() -> Path:
    """Return a nats-server that is new enough: the system's, the cached one, or one built by go
    now.
    """
    installed = shutil.which("nats-server")
    if installed and _nats_version(installed) >= NATS_OLDEST:
        return Path(installed)
    built = cache_dir() / "bin" / "nats-server"
    if built.exists() and _nats_version(str(built)) >= NATS_OLDEST:
        return built
    if not shutil.which("go"):
        raise NotReady("NATS: needs nats-server 2.10 or newer, or go to build it")
    print(f"building {NATS_MODULE} (once)", file=sys.stderr, flush=True)
    environment = inherited_environment(GOBIN=str(built.parent), GOFLAGS="-buildvcs=false")
    try:
        made = subprocess.run(
            ["go", "install", NATS_MODULE],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
    except subprocess.TimeoutExpired as error:
        raise NotReady("NATS: go install took over 300 s") from error
    if made.returncode != 0:
        raise NotReady(f"NATS: go install failed: {made.stderr.strip()[-300:]}")
    return built


def peers_python() -> Path:
    """Return the interpreter of the environment with the peers' clients."""
    home = cache_dir() / "peers-venv"
    python = home / "bin" / "python"
    marker = home / "installed.txt"
    wanted = "\n".join(CLIENTS)
    if marker.exists() and marker.read_text() == wanted:
        return python
    print("installing the peers' clients (once)", file=sys.stderr, flush=True)
    venv.create(home, with_pip=True, clear=True)
    made = subprocess.run(
        [python, "-m", "pip", "install", "-q", *CLIENTS],
        capture_output=True,
        text=True,
        timeout=300,
    )
    if made.returncode != 0:
        raise NotReady(f"peers' clients: pip failed: {made.stderr.strip()[-300:]}")
    marker.write_text(wanted)
    return python
