"""The statements that Postgres gets while they are counted, by the sending process.

Postgres logs each statement (`log_statement = all`, no parameters) with the client's port, and the
kernel knows the process of a port. BEGIN, COMMIT and their kind are counted separately: they are
round trips too, but they look up or write nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import asyncpg

FRAMING = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "START TRANSACTION")
SETTINGS = {
    "log_statement": "all",
    "log_parameter_max_length": "0",
    "log_line_prefix": "@@%r@@ ",
}
_LINE = re.compile(
    r"^@@[^(]*\((\d+)\)@@ LOG:  (?:statement|execute [^:]*): (.*(?:\n\t.*)*)", re.MULTILINE
)


class Asked(NamedTuple):
    """Statements in a span of time."""

    seconds: float
    by_process: Counter[str]
    """Statements of each process, by the name that it has here, or `?`."""
    framing: int
    """Count of BEGIN, COMMIT and their kind, of all processes."""
    texts: Counter[str]
    """Statements by their first words."""

    @property
    def statements(self) -> int:
        return self.by_process.total()


class Statements:
    """Counts from `start` to `stop`; `pids` names the processes that are told apart."""

    def __init__(self, url: str, log: Path, pids: Mapping[str, int]) -> None:
        self._url = url
        self._log = log
        self._pids = dict(pids)
        self._owners: dict[int, str] = {}
        self._begun_s = 0.0
        self._at_byte = 0

    def start(self) -> None:
        asyncio.run(self._configure(True))
        self._owners = port_owners(self._pids)
        self._at_byte = self._log.stat().st_size
        self._begun_s = time.monotonic()

    def stop(self) -> Asked:
        seconds = time.monotonic() - self._begun_s
        with self._log.open("rb") as file:
            file.seek(self._at_byte)
            text = file.read().decode(errors="replace")
        self._owners |= port_owners(self._pids)
        asyncio.run(self._configure(False))
        by_process: Counter[str] = Counter()
        texts: Counter[str] = Counter()
        framing = 0
        for port, statement in _LINE.findall(text):
            if statement.lstrip().upper().startswith(FRAMING):
                framing += 1
                continue
            who = self._owners.get(int(port), "?")
            by_process[who] += 1
            texts[f"{who}: {' '.join(statement.split())[:90]}"] += 1
        return Asked(seconds, by_process, framing, texts)

    async def _configure(self, on: bool) -> None:
        connection = await asyncpg.connect(self._url)
        try:
            for name, value in SETTINGS.items():
                await connection.execute(
                    f"ALTER SYSTEM SET {name} = '{value}'" if on else f"ALTER SYSTEM RESET {name}"
                )
            await connection.execute("SELECT pg_reload_conf()")
        finally:
            await connection.close()
        await asyncio.sleep(0.3)  # every backend has to notice


def port_owners(pids: Mapping[str, int]) -> dict[int, str]:
    """Return the local TCP ports of each of these processes."""
    inodes: dict[str, str] = {}
    for name, pid in pids.items():
        with contextlib.suppress(OSError):
            for entry in os.scandir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    target = os.readlink(entry.path)
                    if target.startswith("socket:["):
                        inodes[target[8:-1]] = name
    owners: dict[int, str] = {}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[9] in inodes:
            owners[int(fields[1].rpartition(":")[2], 16)] = inodes[fields[9]]
    return owners
