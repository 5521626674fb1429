"""Names places in the product where a test may end the process, or falsify a value.

In a product process nothing is ever armed: there is no setting for it. Tests start a process
through a module of their own that arms some (`harness/failpoints.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
NAMES = frozenset(
    {
        "flush.update",
        "publication.opened",
        "publication.staged",
        "publication.committed",
        "publication.released",
        "recovery.raised",
        "recovery.mended",
        "recovery.rebuilt",
        "recovery.used",
        "recovery.entered",
    }
)
_armed: dict[str, Callable[[Any], Any]] = {}


def arm(name: str, act: Callable[[Any], Any]) -> None:
    """`act` gets the value that passes and gives the one that goes on."""
    assert name in NAMES, name
    _armed[name] = act


def reach(name: str) -> None:
    """Mark a place at which a test may end the process."""
    if _armed:
        passing(name, None)


def passing(name: str, value: T) -> T:
    """Return the value, unless a test has armed this failpoint to change it."""
    if not _armed:
        return value
    assert name in NAMES, name
    act = _armed.get(name)
    changed: T = value if act is None else act(value)
    return changed
