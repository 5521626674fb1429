"""Commands that install missing parts.

Our names are on no package index: a package with one of them there would be a stranger's.
"""

from __future__ import annotations

SERVER = "`make up` in a checkout of Packetboat has it, and so has the wheel of packetboat-server"
EXPORTS = (
    "`make exports` in the checkout of Packetboat (1 GB, about 2 minutes), or "
    "`python3 deploy/install.py FOLDER --exports`; then start the server or the runner again"
)


def install(extra: str) -> str:
    """Return the command that installs an extra of the client."""
    return f"pip install './sdk/python[{extra}]' in a checkout of Packetboat, or its wheel[{extra}]"
