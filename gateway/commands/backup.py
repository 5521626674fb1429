"""`packetboat backup …`: Postgres and the store together, copied while they are used.

Which installation: `--data-dir` of a `packetboat up`, else PACKETBOAT_STORE_*,
PACKETBOAT_CLUSTER_UID and PACKETBOAT_DATABASE_URL of a server process.

Exit status: 0 done · 1 refused, or damaged · 2 wrong use · 3 not finished, run it again. Heavy
parts are imported when needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

WRONG_USE = 2

app = typer.Typer(
    name="backup",
    help="Copy Postgres and the store together, and inspect such backups.",
    no_args_is_help=True,
    add_completion=False,
)
Directory = Annotated[Path, typer.Argument(help="The directory of backups.", file_okay=False)]
Name = Annotated[str | None, typer.Option(help="Name of the backup; by default the newest.")]


@app.command()
def take(
    directory: Directory,
    keep: Annotated[
        int | None,
        typer.Option(help="Afterwards, remove all but this number of the newest backups.", min=1),
    ] = None,
    bytes_per_s: Annotated[
        int, typer.Option(help="Maximum bytes of the store to copy per second.", min=1)
    ] = 64 * 1024 * 1024,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Data directory of a `packetboat up`, instead of the environment."),
    ] = None,
) -> None:
    """Create a backup; it copies only batches of the store that no earlier backup has."""
    from gateway.backup import operation
    from gateway.backup.backup_directory import BackupDirectory

    raise typer.Exit(
        operation.take(data_dir, BackupDirectory(directory), keep=keep, bytes_per_s=bytes_per_s)
    )


@app.command("list")
def list_(
    directory: Directory,
    json: Annotated[bool, typer.Option(help="For programs: one JSON object.")] = False,
) -> None:
    """List the backups, oldest first."""
    from gateway.backup import operation
    from gateway.backup.backup_directory import BackupDirectory

    raise typer.Exit(operation.show(BackupDirectory(directory), json=json))


@app.command()
def verify(directory: Directory, name: Name = None) -> None:
    """Read a whole backup; exit status 1 if anything is damaged or missing."""
    from gateway.backup import operation
    from gateway.backup.backup_directory import BackupDirectory

    raise typer.Exit(operation.verify(BackupDirectory(directory), name))
