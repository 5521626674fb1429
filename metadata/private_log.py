"""The log file of a child process, for its owner's eyes: what programs say may quote data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

MAX_LOG_BYTES = 16 * 1024 * 1024
"""A longer log is set aside as `NAME.log.1` before the next start of its program."""
OWNER_ONLY = 0o600


def open_private_log(path: Path) -> IO[bytes]:
    """Open a log file to append to it.

    Only its owner may read it, and the file that was set aside.
    """
    aside = path.with_suffix(".log.1")
    if path.exists() and path.stat().st_size > MAX_LOG_BYTES:
        path.replace(aside)
    if aside.exists():
        aside.chmod(OWNER_ONLY)
    log = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, OWNER_ONLY), "ab")
    os.fchmod(log.fileno(), OWNER_ONLY)
    return log
