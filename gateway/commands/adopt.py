"""`packetboat adopt`: topics that only the store knows are made known to Postgres again.

Exit status: 0 done · 1 refused · 2 wrong use · 3 not finished, run it again. Heavy parts are
imported when needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gateway.commands.orphan_operation import Installation

WRONG_USE = 2


def adopt(
    topic: Annotated[
        str | None, typer.Option(help="Name or uid, as `packetboat store orphans` shows it.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Adopt all topics that can be adopted.")
    ] = False,
    name: Annotated[
        str | None, typer.Option("--as", help="Another name, if the name of the topic is taken.")
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Only show what would happen.")] = False,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Data directory of a `packetboat up`, instead of PACKETBOAT_STORE_* and"
            " _DATABASE_URL."
        ),
    ] = None,
) -> None:
    """Register topics that the store has and Postgres lacks, with their messages."""
    from gateway.commands.orphan_operation import Choice
    from gateway.commands.orphan_operation import adopt as adopt_orphans

    if (topic is None) == (not every):
        raise typer.BadParameter("either --topic or --all")
    if every and name is not None:
        raise typer.BadParameter("--as goes with --topic")
    installation = find("adopt", data_dir)
    raise typer.Exit(adopt_orphans(installation, Choice(topic, every, name, dry_run)))


def find(command: str, data_dir: Path | None) -> Installation:
    """Find the installation; exit if there is none."""
    from gateway.commands import orphan_operation

    try:
        return orphan_operation.find(data_dir)
    except (ValueError, OSError) as error:
        typer.echo(f"packetboat {command}: {error}", err=True)
        raise typer.Exit(WRONG_USE) from None
