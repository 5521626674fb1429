"""`packetboat policies …`."""

from __future__ import annotations

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import File, Force, Labels, Name, Set, body
from packetboat.cli.flags import Members, Resources, Role
from packetboat.cli.invocation import Invocation
from packetboat.cli.nouns import Noun, add_get, add_list
from packetboat.cli.shared_options import add, commands

app: typer.Typer = commands("policies", "Roles of members on resources.")
NOUN = Noun("policies", "policy", ("name", "role", "members", "resources"), "shop")
add_list(app, NOUN)
add_get(app, NOUN)


@add(
    app,
    "set",
    example="packetboat policies set shop --role publisher --member client:shop "
    "--resource 'topics/orders-*'",
)
def set_(
    context: typer.Context,
    name: Name,
    role: Role = None,
    member: Members = None,
    resource: Resources = None,
    force: Force = False,
    label: Labels = None,
    file: File = None,
    set_: Set = None,
) -> None:
    """Create a policy, or replace it."""
    here = Invocation.of(context)
    wanted = body(file, set_, label, role=role, members=member, resources=resource)
    here.output.record(here.api.put(path("policies", name), wanted, force=force or None))


@add(app, "delete", example="packetboat policies delete shop")
def delete(context: typer.Context, name: Name, force: Force = False) -> None:
    """Delete a policy; `--force` even if it is the last owner's."""
    here = Invocation.of(context)
    here.api.delete(path("policies", name), force=force or None)
    here.output.note(f"The policy {name!r} is deleted.")
