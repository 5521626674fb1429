"""`packetboat quotas …`."""

from __future__ import annotations

from typing import Annotated

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import wrong
from packetboat.cli.flags import Weight
from packetboat.cli.invocation import Invocation
from packetboat.cli.shared_options import add, commands

app: typer.Typer = commands("quotas", "Limits of a tenant.")


@add(app, "get", example="packetboat quotas get")
def get(
    context: typer.Context,
    tenant: Annotated[str | None, typer.Option(help="Another tenant; for operators.")] = None,
) -> None:
    """Show the limits; null means no limit."""
    here = Invocation.of(context)
    here.output.record(
        here.api.get("/quotas" if tenant is None else path("tenants", tenant, "quotas"))
    )


@add(app, "set", example="packetboat quotas set shop topics=100 publish_messages_per_second=5000")
def set_(
    context: typer.Context,
    tenant: Annotated[str, typer.Argument(metavar="TENANT", help="Whose.")],
    limits: Annotated[
        list[str] | None,
        typer.Argument(metavar="LIMIT=NUMBER…", help="All of them: the rest is as by default."),
    ] = None,
    weight: Weight = None,
) -> None:
    """Say what a tenant may use; for operators."""
    here = Invocation.of(context)
    wanted: dict[str, object] = {"limits": dict(_limit(each) for each in limits or ())}
    if weight is not None:
        wanted["weight"] = weight
    here.output.record(here.api.put(path("tenants", tenant, "quotas"), wanted))


def _limit(text: str) -> tuple[str, float]:
    name, _, number = text.partition("=")
    try:
        value = float(number)
    except ValueError:
        raise wrong(f"{text!r} is not LIMIT=NUMBER") from None
    return name, int(value) if value.is_integer() else value
