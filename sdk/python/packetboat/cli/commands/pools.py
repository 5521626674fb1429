"""`packetboat pools …`."""

from __future__ import annotations

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import Name
from packetboat.cli.flags import MaxRunning
from packetboat.cli.invocation import Invocation
from packetboat.cli.nouns import Noun, add_common
from packetboat.cli.shared_options import add, commands

app: typer.Typer = commands("pools", "Limits of tasks that run at once.")
add_common(app, Noun("pools", "pool", ("name", "max_running", "running", "waiting"), "reports"))


@add(app, "set", example="packetboat pools set reports --max-running 4")
def set_(
    context: typer.Context,
    name: Name,
    max_running: MaxRunning,
) -> None:
    """Limit the number of tasks that run at once."""
    here = Invocation.of(context)
    here.output.record(here.api.put(path("pools", name), {"max_running": max_running}))
