"""The server's parts, and the commands that it adds to `packetboat`.

In the wheel the parts (`gateway`, `store_nodes` and so on) lie beside this file; in a checkout they
lie at its top. Only a process of the server may call `enter`: any other may have modules of its own
with the names of the parts.
"""

from __future__ import annotations

import sys
from pathlib import Path


def parts() -> Path:
    """Return the folder whose packages are the parts."""
    here = Path(__file__).resolve().parent
    return here if (here / "gateway").is_dir() else here.parents[1]


def enter() -> None:
    """Make this a process of the server: `import gateway` finds ours and no other."""
    folder = str(parts())
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)
