"""The command `serve` in a forked process that tells which modules it had to import."""

from __future__ import annotations

import atexit
import os
import sys
from pathlib import Path

from gateway.command import main

FILE = "TEST_MODULES"
"""The environment variable that names the file for the names."""


def serve() -> None:
    known = set(sys.modules)
    path = Path(os.environ[FILE])
    atexit.register(lambda: path.write_text("\n".join(sorted(set(sys.modules) - known))))
    main()
