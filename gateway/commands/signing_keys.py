"""`packetboat signing-keys …`: the keys that tokens are signed with, apart from their rotation.

They rotate by themselves. A key is replaced by hand when it, or the seal key, may be known to
others, or when no seal key opens it any more.

Which installation: `--data-dir` of a `packetboat up`, else PACKETBOAT_DATABASE_URL and
PACKETBOAT_SEAL_KEYS. Exit status: 0 done · 1 refused · 2 wrong use.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from metadata.tenancy.signing_keys import KeyRing

WRONG_USE = 2

app = typer.Typer(
    name="signing-keys",
    help="Keys that sign tokens; they rotate by themselves.",
    no_args_is_help=True,
    add_completion=False,
)


@app.callback()
def choose(
    context: typer.Context,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Data directory of a `packetboat up`, instead of the environment."),
    ] = None,
) -> None:
    context.obj = data_dir


@app.command("list")
def list_(context: typer.Context) -> None:
    """List the keys that sign, will sign, or still verify."""
    show(_run(context.obj, None))


@app.command()
def replace(
    context: typer.Context,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget", help="Forget all current keys: every token that they signed ends now."
        ),
    ] = False,
) -> None:
    """Sign with a new key from now on; tokens of the old key stay valid, except with --forget."""
    show(_run(context.obj, forget))


def show(ring: KeyRing) -> None:
    """Print a line for each key: its name, algorithm, state, and the end of that state."""
    for key in ring.keys:
        if key.signs_from > ring.now:
            state, until = "published", key.signs_from
        elif key.signs_until > ring.now:
            state, until = "signs", key.signs_until
        else:
            state, until = "verifies", key.verifies_until
        until_text = until.isoformat(timespec="seconds")
        typer.echo(f"{key.kid}\t{key.algorithm}\t{state}\tuntil {until_text}")


def _run(data_dir: Path | None, forget: bool | None) -> KeyRing:
    """List the keys, or replace them if `forget` is not None; exit if it is refused."""
    from gateway.commands import signing_keys_operation as operation
    from metadata.errors import MetadataError

    try:
        installation = operation.find(data_dir)
    except (ValueError, KeyError, OSError) as error:
        typer.echo(f"packetboat signing-keys: no installation: {error}", err=True)
        raise typer.Exit(WRONG_USE) from None
    try:
        if forget is not None:
            return operation.replace(installation, forget=forget)
        return operation.look(installation)
    except MetadataError as error:
        typer.echo(f"packetboat signing-keys: {error}", err=True)
        raise typer.Exit(1) from None
