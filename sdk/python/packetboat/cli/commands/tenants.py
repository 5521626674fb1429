"""`packetboat tenants …`, for operators."""

from __future__ import annotations

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import File, Force, Labels, Name, Set, body
from packetboat.cli.flags import FirstOwner, TenantDisplayName, TenantState
from packetboat.cli.invocation import Invocation
from packetboat.cli.nouns import Noun, add_get, add_list
from packetboat.cli.shared_options import add, commands

app: typer.Typer = commands("tenants", "Tenants of this installation; for operators.")
NOUN = Noun("tenants", "tenant", ("name", "state", "display_name", "labels", "created_at"), "shop")
add_list(app, NOUN)
add_get(app, NOUN)


@add(app, "set", example="packetboat tenants set shop --owner root --display-name 'The shop'")
def set_(
    context: typer.Context,
    name: Name,
    owner: FirstOwner = None,
    display_name: TenantDisplayName = None,
    state: TenantState = None,
    label: Labels = None,
    file: File = None,
    set_: Set = None,
) -> None:
    """Create a tenant, or replace its settings."""
    here = Invocation.of(context)
    first = {"name": owner} if owner else None
    wanted = body(file, set_, label, display_name=display_name, state=state, owner=first)
    here.output.record(here.api.put(path("tenants", name), wanted))


@add(app, "delete", example="packetboat tenants delete shop --force")
def delete(context: typer.Context, name: Name, force: Force = False) -> None:
    """Delete a tenant; `--force` even if it has topics."""
    here = Invocation.of(context)
    here.api.delete(path("tenants", name), force=force or None)
    here.output.note(f"The tenant {name!r} is being deleted.")
