"""`packetboat whoami`."""

from __future__ import annotations

import typer

from packetboat.cli.invocation import Invocation
from packetboat.cli.shared_options import add

app: typer.Typer = typer.Typer()


@add(app, "whoami", example="packetboat whoami -o json")
def whoami(context: typer.Context) -> None:
    """Show your identity at the server, and your roles."""
    here = Invocation.of(context)
    answer = here.api.get("/whoami")
    here.output.record(answer)
    target = here.target
    here.output.note(
        f"(server: {target.urls[0]} of {target.url_from}; "
        f"credential of {target.credential_from or 'nowhere'})"
    )
