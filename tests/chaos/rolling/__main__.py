"""`python -m tests.chaos.rolling` (make rolling): nine processes under load by the SDK, restarted
one by one, `--rounds` times; upgraded from the previous release, taken back to it, upgraded again.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from harness import releases
from tests.chaos.rolling.scenarios import restarted, upgraded


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("restarts", "upgrade"))
    asked = parser.parse_args()
    wrong: list[str] = []
    if asked.only != "upgrade":
        wrong += _in_a_directory(lambda root: restarted(root, asked.rounds))
    if asked.only != "restarts":
        if reason := releases.missing():
            sys.stdout.write(f"no upgrade: {reason}\n")
            return 1
        wrong += _in_a_directory(lambda root: upgraded(root, releases.unpacked(root), asked.rounds))
    sys.stdout.write("\n".join(wrong) + "\n" if wrong else "nothing went wrong\n")
    return 1 if wrong else 0


def _in_a_directory(scenario: Callable[[Path], Awaitable[list[str]]]) -> list[str]:
    root = Path(tempfile.mkdtemp(prefix="packetboat-rolling-"))
    root.chmod(0o755)  # Postgres's lesser account must get there when we are root.

    async def run() -> list[str]:
        return await scenario(root)

    try:
        return asyncio.run(run())
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
