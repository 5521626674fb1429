"""How a secret comes in: asked for, or on stdin; never an argument, never shown."""

from __future__ import annotations

import sys

import typer

from packetboat.cli.exit_codes import ExitCode
from packetboat.cli.failures import CommandFailed


def read_secret(what: str) -> str:
    """One line; `what` is said to whoever is asked."""
    if sys.stdin.isatty():
        found = str(typer.prompt(what, hide_input=True, err=True)).strip()
    else:
        found = sys.stdin.readline().strip()
    if not found:
        raise CommandFailed(f"no {what.lower()} given", ExitCode.USAGE)
    return found
