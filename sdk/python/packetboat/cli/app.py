"""The `packetboat` command as typer knows it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from packetboat.cli.root import Root


def _versions(asked: bool) -> None:
    """Print the versions of the installed distributions."""
    if not asked:
        return
    from importlib.metadata import PackageNotFoundError, version

    for name in ("packetboat-client", "packetboat-server"):
        try:
            sys.stdout.write(f"{name} {version(name)}\n")
        except PackageNotFoundError:
            sys.stdout.write(f"{name} is not installed\n")
    raise typer.Exit


app: typer.Typer = typer.Typer(
    name="packetboat",
    cls=Root,
    help="Packetboat: a self-hosted HTTP pub/sub platform.",
    epilog="Where the server is: --url and --token, PACKETBOAT_URL and PACKETBOAT_TOKEN, a profile "
    "of `packetboat login`, or .packetboat/client.env of a `packetboat up` here.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the versions.", callback=_versions, is_eager=True),
    ] = False,
) -> None: ...
