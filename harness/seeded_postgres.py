"""A migrated Postgres that is copied, not made: initdb and migrations run once for all tests.

Servers start on the copy as on a second start of the same release. Tests of a first start itself
(tests/integration/metadata/test_embedded.py, tests/e2e/test_up.py) take no copy.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import shutil
import socket
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from metadata.postgres.embedded import SUPERUSER, EmbeddedPostgres
from metadata.postgres.migrate import upgrade

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build"


class SeededPostgres(EmbeddedPostgres):
    """An embedded server whose first start finds the schema; all of them have one password."""

    def _make_data(self) -> None:
        made = template("postgres", _make)
        fresh = self._home / "data.new"
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.copytree(made.data, fresh)
        for folder, _, files in os.walk(fresh):
            for path in (Path(folder), *(Path(folder) / file for file in files)):
                self._account.own(path)
        shutil.copy(made._password_file, self._password_file)
        fresh.rename(self.data)


def seed(directory: Path) -> None:
    """Put the copy into a directory of `packetboat up`; do nothing where there is a Postgres."""
    SeededPostgres(directory, port=free_port()).prepare()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def template(
    name: str, make: Callable[[EmbeddedPostgres], None], sources: Iterable[Path] = ()
) -> EmbeddedPostgres:
    """Return a stopped server with the schema of this tree, made at the first call on a machine.

    `make` starts it, migrates it and stops it; `sources` are files that decide what comes of it,
    beside those of the schema.
    """
    BUILD.mkdir(exist_ok=True)
    with _locked(BUILD / f"{name}.lock"):
        directory = BUILD / f"{name}-{_digest(sources)}"
        made = EmbeddedPostgres(directory, port=free_port())
        whole = directory / "whole"
        if not whole.exists():
            for old in BUILD.glob(f"{name}-*"):
                shutil.rmtree(old)
            # On a thread of its own: a caller may have an event loop.
            with ThreadPoolExecutor(1) as thread:
                thread.submit(make, made).result()
            whole.touch()
        else:
            made.prepare()
        return made


def _make(made: EmbeddedPostgres) -> None:
    made.start()
    upgrade(made.url)
    asyncio.run(_shorten_logins(made.url))
    made.stop()


async def _shorten_logins(url: str) -> None:
    """Store the same password with one round of hashing.

    Each connection would take 5 ms of processor time for 4,096 of them, and tests make thousands.
    """
    connection = await asyncpg.connect(url)
    try:
        if connection.get_server_version() >= (16,):
            await connection.execute("SET scram_iterations = 1")
            password = urlsplit(url).password
            await connection.execute(f"ALTER ROLE {SUPERUSER} PASSWORD '{password}'")
    finally:
        await connection.close()


def _digest(sources: Iterable[Path]) -> str:
    """Return a name for all that makes the template what it is."""
    metadata = ROOT / "metadata"
    parts = (
        *sorted((metadata / "migrations").rglob("*.py")),
        *sorted((metadata / "postgres").glob("*.py")),
        *sources,
        Path(__file__),
    )
    return hashlib.sha256(b"".join(part.read_bytes() for part in parts)).hexdigest()[:16]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
