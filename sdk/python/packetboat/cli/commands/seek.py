"""`packetboat seek`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import Subscription, moment, wrong
from packetboat.cli.invocation import Invocation
from packetboat.cli.shared_options import add

app: typer.Typer = typer.Typer()


@add(app, "seek", example="packetboat seek billing --to 2h --dry-run")
def seek(
    context: typer.Context,
    subscription: Subscription,
    to: Annotated[
        str | None,
        typer.Option(help="`earliest`, `latest`, a time, or an age such as 2h."),
    ] = None,
    snapshot: Annotated[str | None, typer.Option(help="The snapshot to return to.")] = None,
    offset: Annotated[
        int | None, typer.Option(help="The same offset in every partition.", min=0)
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would happen.")
    ] = False,
) -> None:
    """Move a subscription back, to deliver messages again, or forward, to skip messages."""
    here = Invocation.of(context)
    wanted = {"to": _place(to, snapshot, offset), "dry_run": dry_run}
    here.output.record(here.api.post(path("subscriptions", subscription, "seek"), wanted))


def _place(to: str | None, snapshot: str | None, offset: int | None) -> Any:
    if sum(each is not None for each in (to, snapshot, offset)) != 1:
        raise wrong("one of --to, --snapshot and --offset")
    if snapshot is not None:
        return {"snapshot": snapshot}
    if offset is not None:
        return {"offset": offset}
    assert to is not None
    return to if to in ("earliest", "latest") else {"time": moment(to).isoformat()}
