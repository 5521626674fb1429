"""The coverage that a set of runs needs to prove anything: every fault, its consequences,
and every module of the store.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import store_nodes

ROOT = Path(store_nodes.__file__).parent

REQUIRED = (
    # Faults.
    "killed",
    "power cut",
    "killed at an effect",
    "power cut at an effect",
    "all nodes crashed at once",
    "away for long",
    "stopped",
    "process paused",
    "cut off",
    "unheard",
    "deaf",
    "one link cut",
    "connection reset",
    "clock stepped",
    "disk stalled",
    "write torn",
    "bytes rotted",
    "misdirected write",
    "source of an install died",
    "power cut at an effect of an install",
    "third node died after an install",
    "disk lost",
    "deposed unheard",
    "lagged behind who lags",
    "ended as its checkpoint counted",
    # What follows.
    "install begun",
    "checkpoint installed",
    "install not needed any more",
    "segments settled",
    "index made anew",
    "started damaged",
    "damage found while running",
    "damage repaired",
    "vote given back",
    # Actions and findings of clients.
    "outcome unknown",
    "stored at a later try",
    "known id refused",
    "queue sealed",
    "queue truncated",
    "queue truncated around what is kept",
    "staged",
    "discarded",
    "rescheduled",
    "released",
    "checkpoint asked for",
    "leader wished for",
    "change told",
    "group added",
    "a lost directory refused",
    "node replaced",
)

UNREACHED = {
    "store_nodes/backup/": "a backup reads by the client's calls, and a restore is a program of its"
    " own: tests/unit/backup and tests/chaos/test_backup.py",
    "store_nodes/disk_room.py": "disks have room here: tests/unit/gateway/test_store_disks.py",
    "store_nodes/admin/inventory.py": "counts queues for operators: tests/unit/store_admin",
    "store_nodes/admin/leaders.py": "leaders are moved by the core simulation (reconfigurer.py)",
    "store_nodes/admin/health.py": "says in words what a status says: tests/unit/store_admin",
    "store_nodes/client/guard.py": "is of publishing: tests/unit/store_client/test_guard.py",
    "store_nodes/node/metrics.py": "metrics are off: tests/integration/store_nodes/test_metrics.py",
    "store_nodes/wal/errors.py": "few seeds read damage, and few are looked at",
    "store_nodes/wire.py": "frames of a later version, its one function, do not come",
}
"""Modules of store_nodes that no run executes, or folders of them, each with the reason."""


@contextmanager
def modules_seen(seen: set[str]) -> Iterator[None]:
    """Adds the modules of the store of which a function runs within."""

    def look(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code.co_name != "<module>":
            seen.add(code.co_filename)

    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(None)


def modules() -> set[str]:
    """Return the modules of store_nodes that have a function, by their path."""
    return {
        str(path)
        for path in ROOT.rglob("*.py")
        if any(line.lstrip().startswith(("def ", "async def ")) for line in path.open())
    }


def unreached(seen: Iterable[str]) -> list[str]:
    """Return the errors in the list of modules that are not reached, in words."""
    found = []
    reached = {one for one in seen if one.startswith(str(ROOT))}
    for path in sorted(modules()):
        name = str(Path(path).relative_to(ROOT.parent))
        reason = next((key for key in UNREACHED if name.startswith(key)), None)
        if path not in reached and reason is None:
            found.append(f"no run executed {name}, and no reason is written down")
    return found
