"""`packetboat usage`."""

from __future__ import annotations

from typing import Annotated

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import Limit, moment
from packetboat.cli.invocation import Invocation
from packetboat.cli.shared_options import add

app: typer.Typer = typer.Typer()


@add(app, "usage", example="packetboat usage --from 7d --metric requests")
def usage(
    context: typer.Context,
    from_: Annotated[str | None, typer.Option("--from", help="A time, or an age.")] = None,
    to: Annotated[str | None, typer.Option("--to", help="A time, or an age.")] = None,
    metric: Annotated[str | None, typer.Option(help="Only this metric.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Another tenant; for operators.")] = None,
    limit: Limit = None,
) -> None:
    """Show the usage of a tenant, per hour."""
    here = Invocation.of(context)
    where = "/usage" if tenant is None else path("tenants", tenant, "usage")
    query = {"from": moment(from_) if from_ else None, "to": moment(to) if to else None}
    rows = here.api.pages(where, "usage", limit=limit, metric=metric, **query)
    here.output.rows(rows, "hour", "metric", "value")
