"""The message for people about a node whose disk has too little room to take appends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from store_nodes.settings import DISK_RESERVE


def no_room(node: int, path: str, free_bytes: int, reserve_bytes: int) -> str:
    """Return the message: it names the disk, its free space, and the setting."""
    disk = f"the disk of {path}" if path else "its disk"
    return (
        f"store node {node} takes no appends: {disk} has {_mib(free_bytes)} MiB free, and"
        f" {DISK_RESERVE}={reserve_bytes} keeps {_mib(reserve_bytes)} MiB"
    )


def no_room_of(status: Mapping[str, Any]) -> str | None:
    """Return the message for a node's status; None if the node takes appends or says nothing."""
    disk = status.get("disk")
    if not isinstance(disk, Mapping) or not disk.get("appends_refused"):
        return None
    # A node of release 0.2.0 does not say where its data is.
    return no_room(status["node"], disk.get("path", ""), disk["free_bytes"], disk["reserve_bytes"])


def _mib(size_bytes: int) -> int:
    return size_bytes // (1024 * 1024)
