"""Parts of subscriptions: `packetboat seek`, `snapshots`, `skip-rules`, `flow`, and
`signing-secrets`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import Labels, Name, Subscription, body, moment, wrong
from packetboat.cli.flags import (
    ExpiresIn,
    FlowMaxOutstanding,
    FlowRate,
    FlowReason,
    FlowTtl,
    OldExpiresIn,
    SigningKind,
)
from packetboat.cli.invocation import Invocation
from packetboat.cli.nouns import Expression, Noun, add_common
from packetboat.cli.secret_text import note_secret
from packetboat.cli.shared_options import add, commands

SNAPSHOTS = ("name", "subscription", "topic", "created_at", "expires_at")
SKIP_RULES = ("id", "expression", "reason", "created_by", "created_at", "removed_at")
SIGNING_SECRETS = ("id", "kind", "public_key", "created_at", "expires_at")

seek: typer.Typer = typer.Typer()
snapshots: typer.Typer = commands(
    "snapshots", "Keep where a subscription stands; `packetboat seek` goes back there."
)
add_common(snapshots, Noun("snapshots", "snapshot", SNAPSHOTS, "before-deploy"))
skip_rules: typer.Typer = commands(
    "skip-rules", "Messages that a subscription passes over instead of delivering them."
)
flow: typer.Typer = commands("flow", "Limit the delivery to the consumers of a subscription.")
signing_secrets: typer.Typer = commands(
    "signing-secrets", "Secrets that sign the requests of a push subscription."
)


@add(seek, "seek", example="packetboat seek billing --to 2h --dry-run")
def move(
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


@add(snapshots, "create", example="packetboat snapshots create billing before-deploy")
def create_snapshot(
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


@add(skip_rules, "list", example="packetboat skip-rules list billing --removed")
def list_skip_rules(
    context: typer.Context,
    subscription: Subscription,
    removed: Annotated[bool, typer.Option("--removed", help="Also show removed rules.")] = False,
) -> None:
    """List the skip rules of a subscription, oldest first."""
    here = Invocation.of(context)
    where = path("subscriptions", subscription, "skip_rules")
    answer = here.api.get(where, removed=removed or None)
    here.output.rows(answer["skip_rules"], *SKIP_RULES)
    here.output.note(f"({answer['skipped']} messages skipped so far)")


@add(
    skip_rules,
    "add",
    example="packetboat skip-rules add billing 'data.total >= 999.0' --reason 'test orders'",
)
def add_skip_rule(
    context: typer.Context,
    subscription: Subscription,
    expression: Expression,
    reason: Annotated[str, typer.Option(help="Reason, for readers of the audit.")],
) -> None:
    """Skip matching messages from now on, including the backlog."""
    here = Invocation.of(context)
    wanted = {"expression": expression, "reason": reason}
    here.output.record(here.api.post(path("subscriptions", subscription, "skip_rules"), wanted))


@add(skip_rules, "remove", example="packetboat skip-rules remove billing RULE_ID")
def remove_skip_rule(
    context: typer.Context,
    subscription: Subscription,
    rule: Annotated[str, typer.Argument(metavar="ID", help="An id from `skip-rules list`.")],
) -> None:
    """Remove a rule; skipped messages stay skipped."""
    here = Invocation.of(context)
    here.api.delete(path("subscriptions", subscription, "skip_rules", rule))
    here.output.note("The rule is removed.")


@add(flow, "get", example="packetboat flow get billing")
def get_flow(context: typer.Context, subscription: Subscription) -> None:
    """Show the current limit, if there is one."""
    here = Invocation.of(context)
    here.output.record(here.api.get(path("subscriptions", subscription, "flow")))


@add(
    flow, "set", example="packetboat flow set billing --rate 20 --ttl 300 --reason 'slow database'"
)
def set_flow(
    context: typer.Context,
    subscription: Subscription,
    rate: FlowRate = None,
    max_outstanding: FlowMaxOutstanding = None,
    ttl: FlowTtl = None,
    reason: FlowReason = None,
) -> None:
    """Set the limit; a later limit replaces it."""
    if rate is None and max_outstanding is None:
        raise wrong("--rate, --max-outstanding, or both")
    here = Invocation.of(context)
    wanted = body(
        messages_per_second=rate, max_outstanding=max_outstanding, ttl_seconds=ttl, reason=reason
    )
    here.output.record(
        here.api.post(path("subscriptions", subscription, "flow"), wanted, safe=True)
    )


@add(flow, "clear", example="packetboat flow clear billing")
def clear_flow(context: typer.Context, subscription: Subscription) -> None:
    """Remove the limit."""
    here = Invocation.of(context)
    here.api.delete(path("subscriptions", subscription, "flow"))
    here.output.note("Nothing is said any more; the subscription's own limits hold.")


@add(signing_secrets, "list", example="packetboat signing-secrets list hooks")
def list_signing_secrets(context: typer.Context, subscription: Subscription) -> None:
    """List the active signing secrets, newest first, without their values."""
    here = Invocation.of(context)
    answer = here.api.get(path("subscriptions", subscription, "signing_secrets"))
    here.output.rows(answer["signing_secrets"], *SIGNING_SECRETS)


@add(
    signing_secrets,
    "create",
    example="packetboat signing-secrets create hooks --old-expires-in 3600",
)
def create_signing_secret(
    context: typer.Context,
    subscription: Subscription,
    kind: SigningKind = None,
    old_expires_in: OldExpiresIn = None,
) -> None:
    """Create a signing secret, shown only once; requests have a signature of each active one."""
    here = Invocation.of(context)
    wanted = body(kind=kind, expires_previous_after_seconds=old_expires_in)
    made = here.api.post(path("subscriptions", subscription, "signing_secrets"), wanted)
    here.output.record(made)
    note_secret(here.output, made["secret"])
    if made["secret"] is None:
        here.output.note("Receivers verify with the public key; the private key is not shown.")


@add(signing_secrets, "delete", example="packetboat signing-secrets delete hooks SECRET_ID")
def delete_signing_secret(
    context: typer.Context,
    subscription: Subscription,
    secret: Annotated[str, typer.Argument(metavar="ID", help="An id from `signing-secrets list`.")],
) -> None:
    """Delete a signing secret, except the last one."""
    here = Invocation.of(context)
    here.api.delete(path("subscriptions", subscription, "signing_secrets", secret))
    here.output.note("The signing secret is deleted.")


def _place(to: str | None, snapshot: str | None, offset: int | None) -> Any:
    if sum(each is not None for each in (to, snapshot, offset)) != 1:
        raise wrong("one of --to, --snapshot and --offset")
    if snapshot is not None:
        return {"snapshot": snapshot}
    if offset is not None:
        return {"offset": offset}
    assert to is not None
    return to if to in ("earliest", "latest") else {"time": moment(to).isoformat()}
