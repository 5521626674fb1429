"""`packetboat forwarders`: who delivers, with which load, and what the scheduler wished.

Exit status: 0 done · 1 Postgres can't be asked · 2 wrong use. Heavy parts are imported when needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

WRONG_USE = 2


def forwarders(
    json: Annotated[bool, typer.Option(help="For programs: one JSON object.")] = False,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Data directory of a `packetboat up`, instead of PACKETBOAT_DATABASE_URL."
        ),
    ] = None,
) -> None:
    """Show the live subscribe forwarders, their loads, and the hints in force."""
    from gateway.commands import forwarders_operation

    try:
        database = forwarders_operation.find(data_dir)
    except (ValueError, OSError) as error:
        typer.echo(f"packetboat forwarders: {error}", err=True)
        raise typer.Exit(WRONG_USE) from None
    raise typer.Exit(forwarders_operation.show(database, json=json))
