"""`packetboat audit`."""

from __future__ import annotations

from typing import Annotated

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import Limit, moment
from packetboat.cli.invocation import Invocation
from packetboat.cli.shared_options import add

app: typer.Typer = typer.Typer()
COLUMNS = ("at", "actor", "action", "resource", "status", "members", "request_id")


@add(app, "audit", example="packetboat audit --from 2h --actor client:shop")
def audit(
    context: typer.Context,
    from_: Annotated[str | None, typer.Option("--from", help="A time, or an age.")] = None,
    to: Annotated[str | None, typer.Option("--to", help="A time, or an age.")] = None,
    actor: Annotated[str | None, typer.Option(help="An actor, such as client:shop.")] = None,
    action: Annotated[str | None, typer.Option(help="An action, such as deleteTopic.")] = None,
    resource: Annotated[
        str | None, typer.Option(help="This resource and everything below it.")
    ] = None,
    oldest: Annotated[bool, typer.Option("--oldest", help="Show the oldest first.")] = False,
    tenant: Annotated[str | None, typer.Option(help="Another tenant; for operators.")] = None,
    limit: Limit = 100,
) -> None:
    """Show who changed which resource, newest first."""
    here = Invocation.of(context)
    where = "/audit" if tenant is None else path("tenants", tenant, "audit")
    query = {
        "from": moment(from_) if from_ else None,
        "to": moment(to) if to else None,
        "actor": actor,
        "action": action,
        "resource": resource,
        "order": "oldest" if oldest else None,
    }
    here.output.rows(here.api.pages(where, "entries", limit=limit, **query), *COLUMNS)
