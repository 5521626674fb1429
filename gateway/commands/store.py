"""`packetboat store …`: look at a running store and change who is in it.

Which store: `--data-dir` of a `packetboat up`, else the PACKETBOAT_STORE_* of a server process.
Every command that changes something may be interrupted and run again: it goes on where it was.

Exit status: 0 done · 1 refused, or the store is not well (`status`) · 2 wrong use ·
3 not finished in time, run it again. Heavy parts are imported when needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gateway.commands.store_operation import StoreAddresses, Work

WRONG_USE = 2

app = typer.Typer(
    name="store",
    help="Inspect a running store, and add or remove nodes.",
    no_args_is_help=True,
    add_completion=False,
)
Node = Annotated[int, typer.Argument(help="The node's id.", min=1, max=65535)]
Place = Annotated[str, typer.Argument(help="Address of the node: host:port.")]
Force = Annotated[
    bool,
    typer.Option("--force", help="Do it even if the loss of one zone would then stop the store."),
]
Seconds = Annotated[
    float, typer.Option(help="Give up after this time; run the command again to continue.")
]


@app.callback()
def choose(
    context: typer.Context,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Data directory of a `packetboat up`, instead of PACKETBOAT_STORE_*."),
    ] = None,
) -> None:
    context.obj = data_dir


@app.command()
def status(
    context: typer.Context,
    watch: Annotated[bool, typer.Option(help="Repeat every second.")] = False,
    json: Annotated[bool, typer.Option(help="For programs: one JSON object each time.")] = False,
) -> None:
    """Show nodes, groups, leaders, lag and disk; exit status 1 if a group has no leader or
    quorum."""
    from gateway.commands import store_operation

    raise typer.Exit(store_operation.show(_store(context), watch=watch, json=json))


@app.command()
def nodes(context: typer.Context) -> None:
    """Print the nodes in the form of PACKETBOAT_STORE_NODES, for the settings of servers."""
    from gateway.commands import store_operation

    raise typer.Exit(store_operation.show_nodes(_store(context)))


@app.command()
def wait(context: typer.Context, timeout: Seconds = 120.0) -> None:
    """Wait until every node is up and has caught up, and every group has a leader."""
    from store_nodes.admin import health

    _run(_store(context), health.until_well, timeout)


@app.command("add-node")
def add_node(
    context: typer.Context,
    node: Node,
    address: Place,
    zone: Annotated[str, typer.Option(help="Zone of the node, such as a data centre.")] = "",
    force: Force = False,
    timeout: Seconds = 600.0,
) -> None:
    """Make a node a voter of every group. Start it first, with PACKETBOAT_STORE_JOIN=1."""
    from store_nodes.admin import members

    store = _store(context)
    _check(address)
    _run(
        store,
        lambda operator: members.add_node(
            operator, node, address, zone=zone, force=force, secret=store.secret, tls=store.tls
        ),
        timeout,
    )


@app.command("remove-node")
def remove_node(
    context: typer.Context, node: Node, force: Force = False, timeout: Seconds = 600.0
) -> None:
    """Remove a node, up or dead, from every group. Its id is never used again."""
    from store_nodes.admin import members

    _run(
        _store(context),
        lambda operator: members.remove_node(operator, node, force=force),
        timeout,
    )


@app.command("replace-node")
def replace_node(
    context: typer.Context,
    old: Node,
    new: Node,
    address: Place,
    zone: Annotated[
        str | None, typer.Option(help="Zone of the new node; by default the zone of the old one.")
    ] = None,
    force: Force = False,
    timeout: Seconds = 600.0,
) -> None:
    """Replace node OLD, dead or alive, by node NEW. Start NEW first, with
    PACKETBOAT_STORE_JOIN=1."""
    from store_nodes.admin import members

    store = _store(context)
    _check(address)
    _run(
        store,
        lambda operator: members.replace_node(
            operator, old, new, address, zone=zone, force=force, secret=store.secret, tls=store.tls
        ),
        timeout,
    )


@app.command("add-group")
def add_group(
    context: typer.Context,
    total: Annotated[
        int | None,
        typer.Option(help="Number of groups afterwards, so that you can repeat the command."),
    ] = None,
    timeout: Seconds = 120.0,
) -> None:
    """Add a group: new topics use it, and partitions of old ones can be moved there."""
    from store_nodes.admin import groups

    _run(_store(context), lambda operator: groups.add_groups(operator, total), timeout)


@app.command()
def transfer(
    context: typer.Context,
    group: Annotated[int, typer.Argument(help="The group.", min=0)],
    node: Node,
) -> None:
    """Make a node the leader of a group, until the next `balance`."""
    from store_nodes.admin import leaders

    _run(_store(context), lambda operator: leaders.transfer(operator, group, node))


@app.command()
def balance(context: typer.Context) -> None:
    """Spread the leaders over the nodes again, after `transfer` and `drain`."""
    from store_nodes.admin import leaders

    _run(_store(context), leaders.balance)


@app.command()
def drain(context: typer.Context, node: Node, timeout: Seconds = 60.0) -> None:
    """Move all leaders off a node before you stop it; refused if a group needs the node."""
    from store_nodes.admin import leaders

    _run(_store(context), lambda operator: leaders.drain(operator, node), timeout)


@app.command()
def checkpoint(context: typer.Context) -> None:
    """Let every node write a checkpoint now."""
    from store_nodes.admin import groups

    _run(_store(context), groups.checkpoint)


@app.command()
def orphans(
    context: typer.Context,
    json: Annotated[bool, typer.Option(help="For programs: one JSON object.")] = False,
) -> None:
    """List topics that the store has and Postgres lacks; `packetboat adopt` registers them.

    Needs PACKETBOAT_DATABASE_URL too."""
    from gateway.commands import adopt as adopt_command
    from gateway.commands import orphan_operation

    installation = adopt_command.find("store orphans", context.obj)
    raise typer.Exit(orphan_operation.show(installation, json=json))


def _store(context: typer.Context) -> StoreAddresses:
    from gateway.commands import store_operation

    try:
        return store_operation.find(context.obj)
    except (ValueError, OSError) as error:
        typer.echo(f"packetboat store: {error}", err=True)
        raise typer.Exit(WRONG_USE) from None


def _run(store: StoreAddresses, work: Work[object], timeout_s: float = 600.0) -> None:
    from gateway.commands import store_operation

    raise typer.Exit(store_operation.run(store, work, timeout_s))


def _check(address: str) -> None:
    from store_nodes.settings import parse_address

    try:
        parse_address(address)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
