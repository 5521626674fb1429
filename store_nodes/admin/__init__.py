"""Administration of a running store: members, leaders, and an overview of the cluster.

`packetboat store …` calls these operations; you can call them from your own tools. Each may be
interrupted at any point and called again with the same arguments: it reads the state from the logs
and continues from there.
"""

from __future__ import annotations

from store_nodes.admin.errors import AdminError, NotFinished, OperationRefused
from store_nodes.admin.operator import Note, Operator, Progress
from store_nodes.admin.overview import GroupRow, NodeRow, Overview

__all__ = [
    "AdminError",
    "GroupRow",
    "NodeRow",
    "NotFinished",
    "Note",
    "OperationRefused",
    "Operator",
    "Overview",
    "Progress",
]
