"""`packetboat schemas …`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import Name, read_json
from packetboat.cli.exit_codes import ExitCode
from packetboat.cli.flags import NewCompatibility, SchemaCompatibility, SchemaType
from packetboat.cli.invocation import Invocation
from packetboat.cli.nouns import Noun, add_common
from packetboat.cli.shared_options import add, commands

app: typer.Typer = commands("schemas", "Schemas of message bodies.")
add_common(
    app,
    Noun("schemas", "schema", ("name", "type", "compatibility", "number", "updated_at"), "order"),
)
Definition = Annotated[
    Path, typer.Argument(metavar="FILE", help="The definition as JSON; - for stdin.")
]


@add(app, "create", example="packetboat schemas create order order.schema.json")
def create(
    context: typer.Context,
    name: Name,
    file: Definition,
    type_: SchemaType = "json_schema",
    compatibility: SchemaCompatibility = None,
) -> None:
    """Create a schema with its first version."""
    here = Invocation.of(context)
    wanted = {"name": name, "type": type_, "definition": read_json(file)}
    if compatibility is not None:
        wanted["compatibility"] = compatibility
    here.output.record(here.api.post("/schemas", wanted))


@add(app, "update", example="packetboat schemas update order --compatibility full")
def update(
    context: typer.Context,
    name: Name,
    compatibility: NewCompatibility,
) -> None:
    """Change the compatibility that later versions must keep."""
    here = Invocation.of(context)
    here.output.record(here.api.patch(path("schemas", name), {"compatibility": compatibility}))


@add(app, "versions", example="packetboat schemas versions order")
def versions(context: typer.Context, name: Name) -> None:
    """List all versions of a schema."""
    here = Invocation.of(context)
    answer = here.api.get(path("schemas", name, "versions"))
    here.output.rows(answer["versions"], "number", "created_at")


@add(app, "add-version", example="packetboat schemas add-version order order.schema.json")
def add_version(context: typer.Context, name: Name, file: Definition) -> None:
    """Add a version; an incompatible one is refused."""
    here = Invocation.of(context)
    wanted = {"definition": read_json(file)}
    here.output.record(here.api.post(path("schemas", name, "versions"), wanted))


@add(app, "check", example="packetboat schemas check order order.schema.json")
def check(context: typer.Context, name: Name, file: Definition) -> None:
    """Check whether a definition could be the next version; exit code 1 if not."""
    here = Invocation.of(context)
    wanted = {"definition": read_json(file)}
    _judged(here, here.api.post(path("schemas", name, verb="check"), wanted, safe=True))


@add(app, "validate", example="packetboat schemas validate order order.json")
def validate(
    context: typer.Context,
    name: Name,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A body as JSON; - for stdin.")],
) -> None:
    """Check whether a body matches the schema; exit code 1 if not."""
    here = Invocation.of(context)
    wanted = {"data": read_json(file)}
    _judged(here, here.api.post(path("schemas", name, verb="validate"), wanted, safe=True))


def _judged(here: Invocation, answer: dict[str, Any]) -> None:
    here.output.record(answer)
    if not answer.get("compatible", answer.get("valid")):
        raise typer.Exit(ExitCode.FAILED)
