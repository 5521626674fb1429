"""Work on a running store: who is in it, who leads, and what it looks like. What
`packetboat store …` calls, and whoever writes their own tools.

Every operation may be interrupted at any point and called again with the same arguments: it looks
at what the logs say and goes on from there.
"""

from __future__ import annotations

from store_nodes.admin.errors import AdminError, NotFinished, Refused
from store_nodes.admin.operator import Note, Operator, Progress
from store_nodes.admin.overview import GroupRow, NodeRow, Overview

__all__ = [
    "AdminError",
    "GroupRow",
    "NodeRow",
    "NotFinished",
    "Note",
    "Operator",
    "Overview",
    "Progress",
    "Refused",
]
