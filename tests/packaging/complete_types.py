"""`python -m tests.packaging.complete_types`: checkers of users know every type of the SDK.

Pyright looks at the SDK as at a package that somebody installed. It names each symbol whose type it
does not know, or that another checker could infer otherwise.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SDK = Path(__file__).parents[2] / "sdk/python"
PYRIGHT = Path(sys.executable).with_name("basedpyright")


def main() -> int:
    """Return the exit code."""
    environment = {
        **os.environ,
        "PATH": f"{PYRIGHT.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(SDK),
    }
    command = [str(PYRIGHT), "--verifytypes", "packetboat", "--ignoreexternal"]
    done = subprocess.run(command, cwd=SDK, env=environment, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout, done.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
