"""`packetboat locks …`: who holds which; `packetboat lock` takes one."""

from __future__ import annotations

import typer

from packetboat.cli.nouns import Noun, add_common
from packetboat.cli.shared_options import commands

app: typer.Typer = commands(
    "locks", "Show locks and their holders; `packetboat lock` holds one for a program."
)
COLUMNS = ("name", "held", "holder", "fencing_token", "expires_in_seconds", "waiting")
add_common(app, Noun("locks", "lock", COLUMNS, "nightly"))
