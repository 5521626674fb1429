"""`packetboat snapshots …`."""

from __future__ import annotations

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import Labels, Name, Subscription, body
from packetboat.cli.flags import ExpiresIn
from packetboat.cli.invocation import Invocation
from packetboat.cli.nouns import Noun, add_common
from packetboat.cli.shared_options import add, commands

app: typer.Typer = commands(
    "snapshots", "Keep where a subscription stands; `packetboat seek` goes back there."
)
COLUMNS = ("name", "subscription", "topic", "created_at", "expires_at")
add_common(app, Noun("snapshots", "snapshot", COLUMNS, "before-deploy"))


@add(app, "create", example="packetboat snapshots create billing before-deploy")
def create(
    context: typer.Context,
    subscription: Subscription,
    name: Name,
    expires_in: ExpiresIn = None,
    label: Labels = None,
) -> None:
    """Save the current ack state of a subscription."""
    here = Invocation.of(context)
    wanted = body(None, None, label, name=name, expires_in_seconds=expires_in)
    here.output.record(here.api.post(path("subscriptions", subscription, "snapshots"), wanted))
