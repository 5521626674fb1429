"""`packetboat restore …`: a new installation made of a backup (`packetboat backup`).

Both halves of one backup: Postgres, and each first node of a new store. Exit status: 0 done ·
1 refused, or damaged · 2 wrong use. Heavy parts are imported when needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gateway.commands.backup import Directory, Name

app = typer.Typer(
    name="restore",
    help="Create a new installation from a backup, after everything was lost.",
    no_args_is_help=True,
    add_completion=False,
)


@app.command()
def postgres(directory: Directory, name: Name = None) -> None:
    """Fill the empty database at PACKETBOAT_DATABASE_URL."""
    from gateway.backup import operation
    from gateway.backup.backup_directory import BackupDirectory

    raise typer.Exit(operation.restore_postgres(BackupDirectory(directory), name))


@app.command()
def node(
    directory: Directory,
    name: Name = None,
    skip_offsets: Annotated[
        int | None,
        typer.Option(
            help="Offsets to skip: more than any partition took since the backup."
            " The same for every node. Default: 16777216.",
            min=0,
        ),
    ] = None,
) -> None:
    """Fill the empty directory of one store node, with the settings that it will be started with:
    PACKETBOAT_STORE_*, and a new PACKETBOAT_CLUSTER_UID."""
    from gateway.backup import operation
    from gateway.backup.backup_directory import BackupDirectory

    raise typer.Exit(operation.restore_node(BackupDirectory(directory), name, skip_offsets))


@app.command()
def installation(
    directory: Directory,
    data_dir: Annotated[Path, typer.Option(help="A new data directory for `packetboat up`.")],
    secrets: Annotated[
        Path,
        typer.Option(
            help="`state.json` of the old data directory, which no backup holds.", dir_okay=False
        ),
    ],
    name: Name = None,
) -> None:
    """Create the data directory of a `packetboat up` from a backup."""
    from gateway.backup import operation
    from gateway.backup.backup_directory import BackupDirectory

    raise typer.Exit(
        operation.restore_installation(BackupDirectory(directory), name, data_dir, secrets)
    )
