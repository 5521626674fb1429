"""`packetboat docs`."""

from __future__ import annotations

import typer

from packetboat.cli.invocation import Invocation
from packetboat.cli.shared_options import add

app: typer.Typer = typer.Typer()


@add(app, "docs", example="packetboat docs")
def docs(context: typer.Context) -> None:
    """Show where the documentation of the API and of its problems is."""
    here = Invocation.of(context)
    url = here.target.urls[0]
    links = {"api": f"{url}/docs", "openapi": f"{url}/openapi.yaml"}
    here.output.rows([{"what": what, "url": link} for what, link in links.items()], "what", "url")
