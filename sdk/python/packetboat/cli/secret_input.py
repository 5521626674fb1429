"""Reads secrets from a prompt or stdin; a secret is never an argument, and never shown."""

from __future__ import annotations

import sys

import typer

from packetboat.cli.exit_codes import ExitCode
from packetboat.cli.failures import CommandFailed


def read_secret(what: str) -> str:
    """Read one line; `what` names the secret in the prompt."""
    if sys.stdin.isatty():
        found = str(typer.prompt(what, hide_input=True, err=True)).strip()
    else:
        found = sys.stdin.readline().strip()
    if not found:
        raise CommandFailed(f"no {what.lower()} given", ExitCode.USAGE)
    return found
