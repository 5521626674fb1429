"""A server with failpoints armed: `python -m tests.chaos.failpoints NAME[:HOW] serve` runs
`packetboat serve` with those.

    publication.*       ends the process there, once: a file named in FAILPOINT_ONCE says it did
    flush.update:HOW    falsifies one flush: range, counter, left_out

`range` records acked ranges without their counter, `counter` a counter without its range, and
`left_out` answers acks as written that are not in the flush at all.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edge import failpoints
from gateway.command import main
from metadata.types import CursorUpdate

ONCE = "PACKETBOAT_TEST_FAILPOINT_ONCE"
EXIT_STATUS = 137


def _first_time() -> bool:
    """Also over restarts."""
    path = Path(os.environ[ONCE])
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def end_process(_: object) -> None:
    """As by SIGKILL: nothing is written, closed or told."""
    if _first_time():
        os._exit(EXIT_STATUS)


def falsify(how: str) -> Callable[[list[CursorUpdate]], list[CursorUpdate]]:
    """Of the first flush that settles something."""
    last: dict[Any, CursorUpdate] = {}

    def change(updates: list[CursorUpdate]) -> list[CursorUpdate]:
        changed = []
        for update in updates:
            before = last.get(update.key)
            grew = before is not None and update.counters.acked > before.counters.acked
            if before is not None and grew and _first_time():
                update = _falsified(how, before, update)
            last[update.key] = update
            changed.append(update)
        return changed

    return change


def _falsified(how: str, before: CursorUpdate, update: CursorUpdate) -> CursorUpdate:
    if how == "range":
        return dataclasses.replace(update, counters=before.counters)
    if how == "counter":
        return dataclasses.replace(update, floor=before.floor, acked=before.acked)
    return before


def run() -> None:
    """Arms what the first argument names; the rest is `packetboat`'s."""
    name, _, how = sys.argv.pop(1).partition(":")
    failpoints.arm(name, falsify(how) if how else end_process)
    main()


if __name__ == "__main__":
    run()
