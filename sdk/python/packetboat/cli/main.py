"""The entry point `packetboat`."""

from __future__ import annotations

import sys

from packetboat.extras import install

EXTRA = frozenset({"typer", "rich"})
"""The packages of the extra `cli`; the script is installed without them, too."""


def main() -> None:
    try:
        from packetboat.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in EXTRA:
            raise
        sys.stderr.write(f"packetboat: the command is an extra: {install('cli')}\n")
        sys.exit(1)
    try:
        app(prog_name="packetboat")
    except KeyboardInterrupt:
        sys.exit(130)
