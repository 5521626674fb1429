"""The cost of importing the SDK: `python -m benchmarks.sdk_import [--rounds 15]`.

Each import is made in a process of its own, of code that Python has compiled already; the
interpreter's own start is not counted. The cases take turns, with `import json` and `import httpx`
beside them. Prints medians, one JSON line each, of the time, of the CPU in it, and of the memory
over a bare interpreter's; `a Client` is one that has sent nothing yet; it imports httpx. Fails if
an import of ours takes over 150 ms of CPU, which on an idle machine is the time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any, NamedTuple

from harness.measure import median

MOST_MS = 150.0
Row = dict[str, Any]
CLIENT = "client = packetboat.Client('http://127.0.0.1:1', 'token')"
ASYNC_CLIENT = "client = packetboat.AsyncClient('http://127.0.0.1:1', 'token')"
STATEMENTS = {
    "nothing": "pass",
    "json": "import json",
    "httpx": "import httpx",
    "packetboat": "import packetboat",
    "Client": "from packetboat import Client",
    "AsyncClient": "from packetboat import AsyncClient",
    "a Client": f"import packetboat; {CLIENT}",
    "an AsyncClient": f"import packetboat; {ASYNC_CLIENT}",
}
HELD = ("packetboat", "Client", "AsyncClient")
"""Cases that the target applies to."""
PROGRAM = """
import time
began_s, cpu_began_s = time.perf_counter(), time.process_time()
{statement}
print(time.perf_counter() - began_s, time.process_time() - cpu_began_s)
(line,) = (line for line in open("/proc/self/status") if line.startswith("VmRSS"))
print(line.split()[1])
"""


class Run(NamedTuple):
    """Figures of one process, with its memory at the end."""

    ms: float
    cpu_ms: float
    mib: float


def once(statement: str) -> Run:
    program = PROGRAM.format(statement=statement)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    seconds, cpu_s, kib = map(float, done.stdout.split())
    return Run(seconds * 1e3, cpu_s * 1e3, kib / 1024)


def measured(rounds: int) -> list[Row]:
    runs: dict[str, list[Run]] = {name: [] for name in STATEMENTS}
    for statement in STATEMENTS.values():
        once(statement)  # Compiles it.
    for _ in range(rounds):
        for name, statement in STATEMENTS.items():
            runs[name].append(once(statement))
    bare_mib = median([run.mib for run in runs["nothing"]])
    return [
        {
            "import": name,
            "ms": round(median([run.ms for run in found]), 2),
            "cpu_ms": round(median([run.cpu_ms for run in found]), 2),
            "mib": round(median([run.mib for run in found]) - bare_mib, 1),
        }
        for name, found in runs.items()
        if name != "nothing"
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rows = measured(parser.parse_args().rounds)
    for row in rows:
        print(json.dumps(row))
    slow = [row["import"] for row in rows if row["import"] in HELD and row["cpu_ms"] > MOST_MS]
    if slow:
        print(f"over {MOST_MS:.0f} ms of CPU: {', '.join(slow)}", file=sys.stderr)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
