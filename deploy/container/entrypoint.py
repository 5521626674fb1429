"""The `packetboat` command as the first process of a container.

The kernel keeps from process 1 every signal that it has no handler for: told to stop before the
command has one of its own, it would go on until it is killed. So one is here from the start.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

STOPPED = 128 + signal.SIGTERM


def stop(number: int, frame: FrameType | None) -> None:
    """Nothing was accepted yet: there is nothing to settle."""
    os._exit(STOPPED)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    sys.argv[0] = "packetboat"
    from packetboat.cli.main import main

    main()
