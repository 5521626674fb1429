"""A real `packetboat up` in a directory of its own, for end-to-end tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

from harness.fork_server import Forked
from harness.seeded_postgres import seed

START_S = 90.0
STOP_S = 45.0
WITH_EXPORTS = {
    "PACKETBOAT_EXPORTS": "1",
    "PACKETBOAT_RUNNER_DRIVER_MEMORY": "1g",
    # Other tests are at work beside it.
    "PACKETBOAT_RUNNER_DRIVER_NICE": "0",
}
"""Settings of one that runs exports, too."""


class Installation:
    """Start, stop and kill one installation; the same directory finds the same data."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.settings: dict[str, str] = {}
        """Settings of the next start that differ from the defaults."""
        self.seeded = True
        """Whether its Postgres is a copy of one with the schema."""
        self.program: tuple[str, ...] = ()
        """Arguments of a new interpreter that runs the command `up`; without them, the product is
        forked, and its modules are not imported again."""
        self.process: subprocess.Popen[str] | None = None
        self.output = ""
        self.url = ""
        self.token = ""

    def start(self) -> Installation:
        command = ["up", "--data-dir", str(self.directory)]
        if not (self.directory / "state.json").exists():
            command += ["--port", "0"]
            if self.seeded and "PACKETBOAT_DATABASE_URL" not in self.settings:
                self.directory.mkdir(parents=True, exist_ok=True)
                seed(self.directory / "postgres")
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PACKETBOAT_")}
        # Few tests need the runner of exports; those that do say so.
        environment |= {"PACKETBOAT_EXPORTS": "0"} | self.settings
        log = self.directory.with_suffix(".out")
        with log.open("w") as out:
            started: dict[str, Any] = {"stdout": out, "stderr": out, "env": environment}
            if self.program:
                command = [sys.executable, *self.program, *command]
                self.process = subprocess.Popen(command, text=True, **started)
            else:
                self.process = Forked("gateway", command, **started)
        deadline_s = time.monotonic() + START_S
        while "export PACKETBOAT_TOKEN=" not in (text := log.read_text()):
            assert self.process.poll() is None, f"up ended:\n{text}"
            assert time.monotonic() < deadline_s, f"up is not ready:\n{text}\n{self.logs()}"
            time.sleep(0.05)
        self.output = text
        exports = dict(
            line.removeprefix("export ").split("=", 1)
            for line in text.splitlines()
            if line.startswith("export ")
        )
        self.url, self.token = exports["PACKETBOAT_URL"], exports["PACKETBOAT_TOKEN"]
        return self

    @contextmanager
    def started(self) -> Iterator[Installation]:
        """Start the installation; stop it at the end unless it was stopped before."""
        try:
            yield self.start()
        finally:
            if self.process is not None:
                self.stop()

    def session(self) -> requests.Session:
        session = requests.Session()
        session.headers["Authorization"] = f"Bearer {self.token}"
        return session

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """Stop `up`; return its exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(STOP_S)
        self.process = None
        return code

    def processes(self) -> dict[int, str]:
        """Return the command lines of all processes that work in this directory, by process id.

        A forked process shows the environment of its parent; its log is in the directory.
        """
        found = {}
        places = [str(self.directory)]
        # Where the account of Postgres cannot enter the directory, its data is elsewhere.
        pointer = self.directory / "postgres" / "location"
        if pointer.exists():
            places.append(pointer.read_text().strip())
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                environment = (entry / "environ").read_bytes()
                output = str((entry / "fd/1").readlink())
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if state != "Z" and any(
                p.encode() in environment or p in line or p in output for p in places
            ):
                found[int(entry.name)] = line
        return found

    def logs(self) -> str:
        parts = []
        for path in sorted((self.directory / "logs").glob("*.log")):
            parts.append(f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}")
        return "\n".join(parts)
