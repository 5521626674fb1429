"""The commands that run servers: a plug-in of the `packetboat` command, which comes with the SDK,
and alone as `python -m gateway`. Heavy parts are imported when needed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup

from gateway.commands import (
    adopt,
    backup,
    certificates,
    forwarders,
    operator,
    restore,
    signing_keys,
    store,
)

S = TypeVar("S")
ONLY_LINUX = (
    "`packetboat up` runs on Linux only: here run `make up-container` in a checkout, which starts "
    "it in a container of Docker or Podman."
)


class ServerCommands(TyperGroup):
    """Refuse to run any command with assertions off."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        # The settings a process trusts are checked with assertions too; -O would drop them.
        if not __debug__:
            sys.stderr.write("packetboat: refusing to run under python -O\n")
            sys.exit(2)
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="packetboat",
    cls=ServerCommands,
    help="Packetboat: a self-hosted HTTP pub/sub platform.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(store.app)
app.add_typer(backup.app)
app.add_typer(restore.app)
app.add_typer(operator.app)
app.add_typer(signing_keys.app)
app.add_typer(certificates.app)
app.command()(adopt.adopt)
app.command()(forwarders.forwarders)
Host = Annotated[str | None, typer.Option(help="Address to listen on. Default: 127.0.0.1.")]
Port = Annotated[int | None, typer.Option(help="Port to listen on; `up` takes 0 for any free.")]


@app.command()
def up(
    data_dir: Annotated[
        Path | None, typer.Option(help="Directory for all data. Default: .packetboat.")
    ] = None,
    host: Host = None,
    port: Port = None,
    exports: Annotated[
        bool | None,
        typer.Option(
            "--exports/--no-exports",
            help="Run exports if Spark is installed. Default: --exports.",
        ),
    ] = None,
) -> None:
    """Run everything on this machine: Postgres, three store nodes, a server, and exports."""
    from gateway import heap

    if sys.platform != "linux":
        raise _refused(ONLY_LINUX)
    with heap.loading():
        from gateway.configuration.settings import inherited_environment
        from gateway.up import checks, fork_server, supervisor

    settings = _settings(
        partial(checks.settings_of, inherited_environment()),
        data_dir=data_dir,
        host=host,
        port=port,
        exports=exports,
    )
    outcome = fork_server.run(partial(supervisor.run, settings))
    if isinstance(outcome, fork_server.Start):
        sys.exit(app())  # as the command that the supervisor asked for
    raise typer.Exit(outcome)


@app.command()
def serve(
    role: Annotated[
        str | None, typer.Option(help="all, gateway, publish, subscribe or scheduler.")
    ] = None,
    host: Host = None,
    port: Port = None,
    workers: Annotated[
        int | None, typer.Option(help="Number of processes that share the port.")
    ] = None,
) -> None:
    """Run a server process against a running Postgres and store (see docs/settings.md)."""
    from gateway import heap

    with heap.loading():
        from gateway import workers as server_processes
        from gateway.configuration import every_setting
        from gateway.configuration.settings import Role, inherited_environment

    try:
        chosen = Role(role) if role is not None else None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--role") from None
    settings = _settings(
        partial(every_setting.of_server, inherited_environment()),
        role=chosen,
        host=host,
        port=port,
        workers=workers,
    )
    raise typer.Exit(server_processes.run(settings))


@app.command("store-node")
def store_node() -> None:
    """Run one store node, configured by PACKETBOAT_STORE_* (see docs/settings.md)."""
    from gateway import heap

    with heap.loading():
        from gateway import descriptors, logs
        from gateway.configuration.settings import log_level
        from store_nodes import main as node
        from store_nodes.settings import from_environment

    try:
        settings = from_environment()
        logs.configure(log_level(), role="store-node", node=settings.node_id)
    except ValueError as error:
        raise _refused(error) from None
    descriptors.raise_limit(descriptors.STORE_NODE)
    heap.freeze()
    heap.give_back_freed()
    raise typer.Exit(node.main(settings))


@app.command()
def migrate(
    operator_file: Annotated[
        Path | None,
        typer.Option(
            help="Create the first operator if there is none; write its credential here (0600)."
        ),
    ] = None,
) -> None:
    """Bring the schema in Postgres (PACKETBOAT_DATABASE_URL) up to this version."""
    from gateway import heap

    with heap.loading():
        from metadata.postgres.database_schema import UnfitSchema
        from metadata.postgres.migrate import upgrade
        from metadata.postgres.roles import RolesNeeded
        from metadata.settings import DatabaseSettings

    try:
        settings = DatabaseSettings.from_environment()
    except ValueError as error:
        raise _refused(error) from None
    try:
        upgrade(settings.url)
    except (RolesNeeded, UnfitSchema) as error:
        sys.stderr.write(f"packetboat: {error}\n")
        raise typer.Exit(1) from None
    operator.first_of(settings, operator_file)


def _settings(read: Callable[..., S], **given: object) -> S:
    try:
        return read(**given)
    except ValueError as error:
        raise _refused(error) from None


def _refused(reason: object) -> typer.Exit:
    """Print each line of the reason, and exit with code 2."""
    for line in str(reason).splitlines():
        sys.stderr.write(f"packetboat: {line}\n")
    return typer.Exit(2)


def main() -> None:
    app()
