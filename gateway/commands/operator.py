"""`packetboat operator …`: who may act above all tenants.

Which installation: `--data-dir` of a `packetboat up`, else PACKETBOAT_DATABASE_URL.

Exit status: 0 done · 1 refused · 2 wrong use. Heavy parts are imported when needed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from gateway.operators import Credential, Operators
    from metadata.settings import DatabaseSettings

T = TypeVar("T")
WRONG_USE = 2
NO_OPERATOR = (
    "There is no operator yet: `packetboat operator create NAME --credential-file FILE` makes one."
)
FIRST = "first"
"""The name of the first operator of an installation."""

app = typer.Typer(
    name="operator",
    help="Operators, who act above all tenants.",
    no_args_is_help=True,
    add_completion=False,
)
Name = Annotated[str, typer.Argument(help="The operator's name.")]


@app.callback()
def choose(
    context: typer.Context,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Data directory of a `packetboat up`, instead of PACKETBOAT_DATABASE_URL."
        ),
    ] = None,
) -> None:
    context.obj = data_dir


@app.command()
def create(
    context: typer.Context,
    name: Name,
    credential_file: Annotated[
        Path | None,
        typer.Option(help="Write the credential to this file (mode 0600) instead of printing it."),
    ] = None,
    if_none: Annotated[
        bool, typer.Option("--if-none", help="Only if there is no operator yet.")
    ] = False,
    permission: Annotated[
        list[str] | None,
        typer.Option(
            help="Grant only this, and nothing in tenants: operate or run_exports; repeat for both."
        ),
    ] = None,
) -> None:
    """Create an operator; its credential is shown only once."""
    from gateway.names import RULE, name_errors

    if name_errors(name):
        raise typer.BadParameter(RULE, param_hint="NAME")
    made = _run(
        context.obj,
        lambda operators: _create(operators, name, credential_file, if_none, permission or None),
    )
    if made is None:
        typer.echo("There is an operator already; none was made.", err=True)
    elif credential_file is not None:
        typer.echo(f"The operator {name!r} is made; its credential is in {credential_file}.")
    else:
        show(name, made)


@app.command("list")
def list_(context: typer.Context) -> None:
    """List the operators, without their secrets."""
    for client in _run(context.obj, lambda operators: operators.all()):
        used = client.last_used_at.isoformat() if client.last_used_at else "never used"
        held = "all" if client.permissions is None else ",".join(client.permissions)
        typer.echo(f"{client.name}\t{client.client_id}\t{client.state}\t{used}\t{held}")


@app.command()
def disable(context: typer.Context, name: Name) -> None:
    """Disable an operator: its secret and its tokens are refused from now on."""

    _run(context.obj, lambda operators: operators.set_state(name, "disabled"))
    typer.echo(f"The operator {name!r} is disabled.")


@app.command()
def enable(context: typer.Context, name: Name) -> None:
    """Enable an operator again."""

    _run(context.obj, lambda operators: operators.set_state(name, "active"))
    typer.echo(f"The operator {name!r} is enabled.")


def first_of(settings: DatabaseSettings, credential_file: Path | None = None) -> None:
    """Create the first operator after a migration, if a file or a terminal can take its credential.

    Otherwise, print how to create one.
    """
    from gateway import operators as operation
    from metadata.errors import MetadataError

    if credential_file is not None:
        try:
            operation.run(
                settings, lambda operators: _create(operators, FIRST, credential_file, True)
            )
        except (operation.NotMade, MetadataError, OSError) as error:
            typer.echo(f"packetboat migrate: the first operator was not made: {error}", err=True)
            raise typer.Exit(1) from None
        return
    if operation.run(settings, lambda operators: operators.any()):
        return
    if not sys.stdout.isatty():
        typer.echo(NO_OPERATOR, err=True)
        return
    try:
        made = operation.run(settings, lambda operators: _create(operators, FIRST, None, True))
    except operation.NotMade:
        return  # another migration, on another terminal, was first
    if made is not None:
        show(FIRST, made)


def show(name: str, credential: Credential) -> None:
    """Show a credential once."""
    typer.echo(f"The operator {name!r} is made. Its credential, shown this once:\n")
    typer.echo(credential.exports())


async def _create(
    operators: Operators,
    name: str,
    credential_file: Path | None,
    if_none: bool,
    permissions: list[str] | None = None,
) -> Credential | None:
    from gateway.operators import credential_in, new_credential

    if if_none and await operators.any():
        return None
    credential = new_credential() if credential_file is None else credential_in(credential_file)
    await operators.create(name, credential, permissions)
    return credential


def _run(data_dir: Path | None, work: Callable[[Operators], Awaitable[T]]) -> T:
    """Run an operation; exit if it is refused."""
    from gateway import operators as operation
    from metadata.errors import MetadataError

    try:
        settings = operation.find(data_dir)
    except (ValueError, KeyError, OSError) as error:
        typer.echo(f"packetboat operator: no installation: {error}", err=True)
        raise typer.Exit(WRONG_USE) from None
    try:
        return operation.run(settings, work)
    except (operation.NotMade, MetadataError, OSError) as error:
        typer.echo(f"packetboat operator: {error}", err=True)
        raise typer.Exit(1) from None
