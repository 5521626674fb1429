"""`packetboat subscriptions …`."""

from __future__ import annotations

from typing import Annotated

import typer

from packetboat.cli import endpoint_commands
from packetboat.cli.api import path
from packetboat.cli.arguments import File, Force, Labels, Limit, Set, Subscription, body, moment
from packetboat.cli.completing import topic_names
from packetboat.cli.flags import (
    AckDeadline,
    DeadLetterTopic,
    Delivery,
    Filter,
    MaxAttempts,
    Ordered,
    PushUrl,
    Start,
)
from packetboat.cli.invocation import Invocation
from packetboat.cli.nouns import Expression, Messages, preview_filter
from packetboat.cli.secret_text import note_secret
from packetboat.cli.shared_options import add, commands

app: typer.Typer = commands("subscriptions", "Create, show and change subscriptions.")
COLUMNS = (
    "name",
    "topic",
    "type",
    "state",
    "delivery",
    "ordered",
    "ack_deadline_seconds",
    "filter",
)
Reason = Annotated[
    str | None, typer.Option("--reason", help="Reason, shown with the subscription.")
]


@add(app, "list", example="packetboat subscriptions list --topic orders")
def list_(
    context: typer.Context,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic", help="Only subscriptions of this topic.", autocompletion=topic_names
        ),
    ] = None,
    limit: Limit = None,
) -> None:
    """List all subscriptions, or the subscriptions of a topic."""
    here = Invocation.of(context)
    where = "/subscriptions" if topic is None else path("topics", topic, "subscriptions")
    here.output.rows(here.api.pages(where, "subscriptions", limit=limit), *COLUMNS)


@add(app, "get", example="packetboat subscriptions get billing")
def get(context: typer.Context, subscription: Subscription) -> None:
    """Show a subscription with all its settings."""
    here = Invocation.of(context)
    here.output.record(here.api.get(path("subscriptions", subscription)))


@add(app, "create", example="packetboat subscriptions create orders billing --start earliest")
def create(
    context: typer.Context,
    topic: Annotated[
        str,
        typer.Argument(
            metavar="TOPIC", help="The topic to subscribe to.", autocompletion=topic_names
        ),
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the subscription.")],
    start: Start = None,
    filter_: Filter = None,
    ack_deadline: AckDeadline = None,
    max_attempts: MaxAttempts = None,
    dead_letter_topic: DeadLetterTopic = None,
    ordered: Ordered = None,
    delivery: Delivery = None,
    push_url: PushUrl = None,
    label: Labels = None,
    file: File = None,
    set_: Set = None,
    if_absent: Annotated[
        bool, typer.Option("--if-absent", help="Succeed if an identical subscription exists.")
    ] = False,
) -> None:
    """Create a subscription."""
    here = Invocation.of(context)
    wanted = body(
        file,
        [*_nested(max_attempts, push_url), *(set_ or ())],
        label,
        start=_start(start),
        filter=filter_,
        ack_deadline_seconds=ack_deadline,
        dead_letter_topic=dead_letter_topic,
        ordered=ordered,
        delivery=delivery,
        type="push" if push_url else None,
    )
    if if_absent:
        made = here.api.put(path("subscriptions", name), {**wanted, "topic": topic})
    else:
        made = here.api.post(path("topics", topic, "subscriptions"), {**wanted, "name": name})
    here.output.record(made)
    secrets = (made.get("push") or {}).get("signing_secrets", ())
    note_secret(here.output, any(each.get("secret") for each in secrets))


@add(app, "update", example="packetboat subscriptions update billing --ack-deadline 60")
def update(
    context: typer.Context,
    subscription: Subscription,
    filter_: Filter = None,
    ack_deadline: AckDeadline = None,
    max_attempts: MaxAttempts = None,
    dead_letter_topic: DeadLetterTopic = None,
    push_url: PushUrl = None,
    label: Labels = None,
    file: File = None,
    set_: Set = None,
) -> None:
    """Change the given settings; the others stay."""
    here = Invocation.of(context)
    nested = [*_nested(max_attempts, push_url), *(set_ or ())]
    wanted = body(
        file,
        nested,
        label,
        filter=filter_,
        ack_deadline_seconds=ack_deadline,
        dead_letter_topic=dead_letter_topic,
    )
    here.output.record(here.api.patch(path("subscriptions", subscription), wanted))


@add(app, "delete", example="packetboat subscriptions delete billing --force")
def delete(context: typer.Context, subscription: Subscription, force: Force = False) -> None:
    """Delete a subscription; `--force` even if that loses the data in `subscriptions holds`."""
    here = Invocation.of(context)
    here.api.delete(path("subscriptions", subscription), force=force or None)
    here.output.note(f"The subscription {subscription!r} is deleted.")


@add(app, "holds", example="packetboat subscriptions holds billing")
def holds(context: typer.Context, subscription: Subscription) -> None:
    """Show the data that a deletion would lose, and what to do instead."""
    here = Invocation.of(context)
    answer = here.api.get(path("subscriptions", subscription, "holds"))
    here.output.rows(answer["holds"], "kind", "name", "messages", "advice")


@add(app, "pause", example='packetboat subscriptions pause billing --reason "bank is down"')
def pause(context: typer.Context, subscription: Subscription, reason: Reason = None) -> None:
    """Stop delivery until `resume`."""
    _change(context, subscription, "pause", reason)


@add(app, "resume", example="packetboat subscriptions resume billing")
def resume(context: typer.Context, subscription: Subscription) -> None:
    """Start delivery again."""
    _change(context, subscription, "resume", None)


@add(app, "drain", example="packetboat subscriptions drain billing")
def drain(context: typer.Context, subscription: Subscription, reason: Reason = None) -> None:
    """Deliver the present backlog, and no message that is published later."""
    _change(context, subscription, "drain", reason)


@add(app, "backlog", example="packetboat subscriptions backlog billing -o json")
def backlog(context: typer.Context, subscription: Subscription) -> None:
    """Show the backlog of a subscription, and the reasons for delays."""
    here = Invocation.of(context)
    here.output.record(here.api.get(path("subscriptions", subscription, "backlog")))


@add(app, "reconcile", example="packetboat subscriptions reconcile billing")
def reconcile(context: typer.Context, subscription: Subscription) -> None:
    """Check that every message is accounted for."""
    here = Invocation.of(context)
    answer = here.api.get(path("subscriptions", subscription, "reconciliation"))
    here.output.record(answer)
    if not answer["balanced"]:
        raise typer.Exit(1)


@add(app, "parked-keys", example="packetboat subscriptions parked-keys billing")
def parked_keys(context: typer.Context, subscription: Subscription) -> None:
    """List parked keys: their first message fails."""
    here = Invocation.of(context)
    answer = here.api.get(path("subscriptions", subscription, "parked_keys"))
    columns = ("key", "partition", "attempts", "reason", "waiting", "since", "detail")
    here.output.rows(answer["parked_keys"], *columns)


@add(app, "resume-key", example="packetboat subscriptions resume-key billing customer-17")
def resume_key(
    context: typer.Context,
    subscription: Subscription,
    key: Annotated[str, typer.Argument(metavar="KEY", help="A key from `parked-keys`.")],
) -> None:
    """Deliver the messages of a parked key again."""
    here = Invocation.of(context)
    where = path("subscriptions", subscription, "parked_keys", verb="resume")
    here.output.record(here.api.post(where, {"key": key}))


@add(app, "skip-key", example="packetboat subscriptions skip-key billing customer-17")
def skip_key(
    context: typer.Context,
    subscription: Subscription,
    key: Annotated[str, typer.Argument(metavar="KEY", help="A key from `parked-keys`.")],
    dead_letter: Annotated[
        bool, typer.Option(help="Keep the message as a dead letter, or drop it.")
    ] = True,
) -> None:
    """Give up the first message of a parked key, and continue with the next one."""
    here = Invocation.of(context)
    where = path("subscriptions", subscription, "parked_keys", verb="skip")
    here.output.record(here.api.post(where, {"key": key, "dead_letter": dead_letter}))


@add(
    app,
    "preview-filter",
    example="packetboat subscriptions preview-filter billing 'data.total > 100.0'",
)
def preview(
    context: typer.Context,
    subscription: Subscription,
    expression: Expression,
    messages: Messages = None,
) -> None:
    """Show which of the newest messages another filter would deliver, and the difference."""
    where = path("subscriptions", subscription, verb="preview_filter")
    preview_filter(context, where, expression, messages)


app.add_typer(endpoint_commands.app)


def _change(context: typer.Context, subscription: str, verb: str, reason: str | None) -> None:
    here = Invocation.of(context)
    wanted = {} if reason is None else {"reason": reason}
    answer = here.api.post(path("subscriptions", subscription, verb), wanted, safe=True)
    here.output.record(answer)


def _nested(max_attempts: int | None, push_url: str | None) -> list[str]:
    found = [] if max_attempts is None else [f"retry.max_attempts={max_attempts}"]
    return found if push_url is None else [*found, f"push.url={push_url}"]


def _start(given: str | None) -> object:
    if given is None or given in ("latest", "earliest"):
        return given
    return {"time": moment(given).isoformat()}
