"""Places at which a test may have a driver killed, by the name of a step."""

from __future__ import annotations

import os
import signal
from typing import Literal, get_args

VARIABLE = "PACKETBOAT_EXPORT_FAIL_AT"
FailPoint = Literal[
    "opened",
    "planned",
    "evolved",
    "files_written",
    "rejects_committed",
    "committed",
    "before_done",
]
FAIL_POINTS: tuple[FailPoint, ...] = get_args(FailPoint)


def reach(point: FailPoint) -> None:
    """End the process at once and silently, if the environment names this point."""
    if os.environ.get(VARIABLE) == point:
        os.kill(os.getpid(), signal.SIGKILL)
