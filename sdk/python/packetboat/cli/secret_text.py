"""Secrets: read from a prompt or stdin, never an argument; and the note beside one that the server
shows only once."""

from __future__ import annotations

import sys

import typer

from packetboat.cli.exit_codes import ExitCode
from packetboat.cli.failures import CommandFailed
from packetboat.cli.output import Output

SHOWN_ONCE = "The secret is shown this once: keep it where it is needed now."


def read_secret(what: str) -> str:
    """Read one line; `what` names the secret in the prompt."""
    if sys.stdin.isatty():
        found = str(typer.prompt(what, hide_input=True, err=True)).strip()
    else:
        found = sys.stdin.readline().strip()
    if not found:
        raise CommandFailed(f"no {what.lower()} given", ExitCode.USAGE)
    return found


def note_secret(output: Output, told: object) -> None:
    """Print the note if the answer has a secret, which is `told`."""
    if told:
        output.note(SHOWN_ONCE)
