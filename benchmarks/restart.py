"""The time that a killed server process of `packetboat up` takes to answer again.

`python -m benchmarks.restart --kills 5` starts an installation, kills its server with SIGKILL
again and again, and prints a JSON line for each kill: seconds until the first 201, and processor
time of the new process until then. Beside them it prints the processor time of interpreters that
end at once, the floor of every start, and of some that import the modules of a server. Fails where
the median of the seconds is over 1.5.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, NamedTuple

from harness.measure import cpu_by_pid, median, tree
from harness.processes import Processes, wait_until

MOST_S = 1.5
POLL_S = 0.01
STEADY_S = 3.0
"""Seconds between two kills."""
IMPORTS = "from gateway import heap, workers\nwith heap.loading():\n    import gateway.server"
TOPIC = "restarts"


class Server(NamedTuple):
    """An installation's server: its port, the token for it, and the process of `up`."""

    port: int
    token: str
    up: int

    def process(self) -> int | None:
        """Return the process that serves now."""
        for pid in tree([self.up]):
            shown = Path(f"/proc/{pid}/cmdline").read_bytes()
            if shown.rstrip(b"\0").replace(b"\0", b" ") == b"packetboat serve":
                return pid
        return None

    def post(self, path: str, body: bytes) -> int:
        """Return the status of an answer, 0 for none."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=5)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            connection.request("POST", path, body, headers)
            return connection.getresponse().status
        except (OSError, HTTPException):
            return 0
        finally:
            connection.close()

    def published(self) -> bool:
        return self.post(f"/topics/{TOPIC}/messages", b"{}") == 201


def cpu_of_interpreter(program: str) -> float:
    """Return the processor time of a new interpreter that runs a program."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", program], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def started(processes: Processes, directory: Path) -> Server:
    """Start an installation; return its server once it serves."""
    log = directory / "up.log"
    command = [sys.executable, "-m", "gateway", "up", "--port", "0", "--data-dir"]
    process = processes.start(
        [*command, str(directory / "data")], log=log, env={"PACKETBOAT_EXPORTS": "0"}
    )
    wait_until(lambda: "export PACKETBOAT_TOKEN=" in log.read_text(), timeout_s=90, what="up")
    told = dict(re.findall(r"^export (\w+)=(.*)$", log.read_text(), re.MULTILINE))
    port = int(told["PACKETBOAT_URL"].rpartition(":")[2])
    return Server(port, told["PACKETBOAT_TOKEN"], process.pid)


def restart(server: Server) -> dict[str, Any]:
    """Kill the server; return how long it took until a message was published."""
    killed = server.process()
    assert killed is not None
    began_s = time.monotonic()
    os.kill(killed, signal.SIGKILL)
    while not server.published():
        time.sleep(POLL_S)
    seconds = time.monotonic() - began_s
    now = server.process()
    assert now is not None
    assert now != killed
    return {"first_201_s": round(seconds, 2), "server_cpu_s": cpu_by_pid([now])[now]}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.restart")
    parser.add_argument("--kills", type=int, default=5)
    options = parser.parse_args()
    for name, program in (("interpreter", "pass"), ("imports of a server", IMPORTS)):
        cpu_s = median([cpu_of_interpreter(program) for _ in range(options.kills)])
        print(json.dumps({"of": name, "cpu_s": round(cpu_s, 2)}), flush=True)
    found: list[float] = []
    with (
        tempfile.TemporaryDirectory(prefix="packetboat-restart-") as name,
        Processes() as processes,
    ):
        Path(name).chmod(0o711)
        server = started(processes, Path(name))
        server.post("/topics", json.dumps({"name": TOPIC}).encode())
        wait_until(server.published, timeout_s=30, what="a first message")
        for _ in range(options.kills):
            time.sleep(STEADY_S)
            row = restart(server)
            found.append(row["first_201_s"])
            print(json.dumps({"of": "a killed server"} | row), flush=True)
    worst = median(found) > MOST_S
    if worst:
        print(f"FAILED: the median of {found} is over {MOST_S} s", file=sys.stderr)
    return 1 if worst else 0


if __name__ == "__main__":
    sys.exit(main())
