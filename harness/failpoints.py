"""A server with failpoints: `python -m harness.failpoints serve` runs `packetboat serve` with
all of them armed. One acts when the file that FAILPOINT names holds its name, and once: the file
goes.

    publication.*       ends the process there
    flush.update:HOW    falsifies one flush: range, counter, left_out

`range` records acked ranges without their counter, `counter` a counter without its range, and
`left_out` answers acks as written that are not in the flush at all.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edge import failpoints
from gateway.command import main
from metadata.types import CursorUpdate

FAILPOINT = "PACKETBOAT_TEST_FAILPOINT"
EXIT_STATUS = 137
FALSIFIED = "flush.update"
HOW = ("range", "counter", "left_out")


def act_once(path: Path, name: str) -> None:
    """The servers that look at the path: the next to come there acts."""
    new = path.with_suffix(".new")
    new.write_text(name)
    new.replace(path)


def _is_due(name: str) -> bool:
    """Return whether it acts now; it acts once, also over restarts."""
    path = Path(os.environ[FAILPOINT])
    try:
        if path.read_text() != name:
            return False
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def _end_process(name: str) -> Callable[[object], None]:
    """As by SIGKILL: nothing is written, closed or told."""

    def end(_: object) -> None:
        if _is_due(name):
            os._exit(EXIT_STATUS)

    return end


def _falsify() -> Callable[[list[CursorUpdate]], list[CursorUpdate]]:
    """Return a patch that falsifies the first flush of a cursor that was flushed before."""
    last: dict[Any, CursorUpdate] = {}

    def change(updates: list[CursorUpdate]) -> list[CursorUpdate]:
        changed = []
        for update in updates:
            before = last.get(update.key)
            if before is not None and update.counters.acked > before.counters.acked:
                for how in HOW:
                    if _is_due(f"{FALSIFIED}:{how}"):
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
    """The arguments are `packetboat`'s."""
    for name in failpoints.NAMES:
        failpoints.arm(name, _falsify() if name == FALSIFIED else _end_process(name))
    main()


if __name__ == "__main__":
    run()
