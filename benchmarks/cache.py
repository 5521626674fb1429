"""The cache of programs that only the peers need, each of which is fetched and made once.

It has the NATS server and its client, Kafka's libraries, and a virtual environment with the peers'
Python clients. Go, Maven and pip find their registries by their own configuration.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

from benchmarks.settings import cache_home
from harness.processes import NotReady
from harness.settings import inherited_environment

NATS_SERVER = "github.com/nats-io/nats-server/v2@v2.15.2"
NATS_CLIENT = "github.com/nats-io/natscli/nats@v0.5.0"
NATS_OLDEST = (2, 15)
"""The oldest version that gathers the flushes of messages that arrive together."""
KAFKA_VERSION = "4.4.0"
KAFKA_ARTIFACTS = ("kafka_2.13", "kafka-tools")
CLIENTS = ("nats-py==2.16.0", "aio-pika==10.2.1", "uvloop==0.23.0")
FETCH_S = 300


def cache_dir() -> Path:
    """Return the cache's directory, which is made if it is missing."""
    path = cache_home() / "packetboat-bench"
    path.mkdir(parents=True, exist_ok=True)
    return path


def nats_server() -> Path:
    """Return a nats-server that is new enough: the system's, the cached one, or one built by go
    now.
    """
    return _go_program("nats-server", NATS_SERVER, NATS_OLDEST)


def nats_client() -> Path:
    """Return the `nats` program, whose `bench` is the load on NATS."""
    return _go_program("nats", NATS_CLIENT, (0, 5))


def _go_program(name: str, module: str, oldest: tuple[int, ...]) -> Path:
    installed = shutil.which(name)
    if installed and _version(installed) >= oldest:
        return Path(installed)
    built = cache_dir() / "bin" / name
    if built.exists() and _version(str(built)) >= oldest:
        return built
    if not shutil.which("go"):
        raise NotReady(f"{name}: needs version {'.'.join(map(str, oldest))}, or go to build it")
    print(f"building {module} (once)", file=sys.stderr, flush=True)
    environment = {"GOBIN": str(built.parent), "GOFLAGS": "-buildvcs=false"}
    _made(["go", "install", module], environment)
    return built


def _version(binary: str) -> tuple[int, ...]:
    output = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=20)
    found = re.search(r"v?(\d+)\.(\d+)\.(\d+)", output.stdout)
    return tuple(int(part) for part in found.groups()) if found else (0,)


def kafka_class_path() -> str:
    """Return the class path of Kafka's servers and tools, which Maven fetches now if need be."""
    jars = cache_dir() / f"kafka-{KAFKA_VERSION}"
    if not jars.exists():
        _fetch_kafka(jars)
    return f"{jars}/*"


def _fetch_kafka(jars: Path) -> None:
    for program in ("mvn", "java"):
        if not shutil.which(program):
            raise NotReady(f"Kafka: needs {program} (apt-get install maven default-jdk-headless)")
    print(f"fetching Kafka {KAFKA_VERSION} with Maven (once)", file=sys.stderr, flush=True)
    wanted = "".join(
        f"<dependency><groupId>org.apache.kafka</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{KAFKA_VERSION}</version></dependency>"
        for artifact in KAFKA_ARTIFACTS
    )
    with tempfile.TemporaryDirectory(prefix="kafka-", dir=cache_dir()) as work:
        project = Path(work, "pom.xml")
        project.write_text(
            "<project><modelVersion>4.0.0</modelVersion><groupId>benchmarks</groupId>"
            "<artifactId>kafka</artifactId><version>1</version>"
            f"<dependencies>{wanted}</dependencies></project>"
        )
        copied = Path(work, "jars")
        command = ["mvn", "--quiet", "--batch-mode", "--file", str(project)]
        command += [f"-Dmaven.repo.local={work}/repository", "-DincludeScope=runtime"]
        _made([*command, "dependency:copy-dependencies", f"-DoutputDirectory={copied}"])
        copied.rename(jars)


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
    _made([str(python), "-m", "pip", "install", "-q", *CLIENTS])
    marker.write_text(wanted)
    return python


def _made(command: Sequence[str], environment: dict[str, str] | None = None) -> None:
    """Run a command that fetches or builds something. Raises NotReady with its last words."""
    what = " ".join(Path(part).name for part in command[:2])
    try:
        made = subprocess.run(
            command,
            env=inherited_environment(**environment or {}),
            capture_output=True,
            text=True,
            timeout=FETCH_S,
        )
    except subprocess.TimeoutExpired as error:
        raise NotReady(f"{what} took over {FETCH_S} s") from error
    if made.returncode != 0:
        raise NotReady(f"{what} failed: {(made.stderr or made.stdout).strip()[-300:]}")
