"""`packetboat pull`, `ack`, `nack`: messages taken by hand."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import Subscription, wrong
from packetboat.cli.exit_codes import ExitCode
from packetboat.cli.invocation import Invocation
from packetboat.cli.messages import PRETTY, pretty
from packetboat.cli.output import Format
from packetboat.cli.shared_options import add

app: typer.Typer = typer.Typer()
MAX_IDS = 1000
Ids = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ACK_ID…",
        help="Ack ids from `pull`; without any, read the output of `pull -o ndjson` from stdin.",
    ),
]
ByMessageId = Annotated[
    bool, typer.Option("--message-id", help="The ids are message ids, not ack ids.")
]


@add(app, "pull", example="packetboat pull billing --max 5 --ack")
def pull(
    context: typer.Context,
    subscription: Subscription,
    max_: Annotated[
        int, typer.Option("--max", "-n", help="Maximum number of messages.", min=1, max=1000)
    ] = 10,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for the first message.", min=0, max=60)
    ] = 0,
    ack_: Annotated[
        bool, typer.Option("--ack/--no-ack", help="Ack the messages after printing them.")
    ] = False,
) -> None:
    """Pull messages; without `--ack` they are delivered again when their lease ends."""
    here = Invocation.of(context)
    where = path("subscriptions", subscription)
    taken = here.api.get(f"{where}/messages", wait_s=wait, max_messages=max_, wait_seconds=wait)
    messages = taken["messages"]
    if here.output.format is Format.TABLE and not here.output.quiet:
        for each in messages:
            here.output.text(pretty(each, PRETTY))
    else:
        here.output.rows(messages, "ack_id")
    sys.stdout.flush()
    if not messages:
        here.output.note("(none now)")
    elif ack_:
        _settle(here, subscription, "ack", [m["ack_id"] for m in messages if m["ack_id"]], {})
    elif here.output.format is Format.TABLE:
        for each in messages:
            here.output.note(f"ack with: packetboat ack {subscription} {each['ack_id']}")


@add(app, "ack", example="packetboat ack billing ACK_ID")
def ack(
    context: typer.Context,
    subscription: Subscription,
    ids: Ids = None,
    message_id: ByMessageId = False,
) -> None:
    """Acknowledge messages that are processed."""
    _settle_given(context, subscription, "ack", ids, message_id, {})


@add(app, "nack", example="packetboat nack billing ACK_ID --delay 60")
def nack(
    context: typer.Context,
    subscription: Subscription,
    ids: Ids = None,
    message_id: ByMessageId = False,
    delay: Annotated[
        float | None, typer.Option(help="Seconds until the messages are delivered again.", min=0)
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Reason of the failure.")] = None,
    reject: Annotated[
        bool,
        typer.Option(
            "--reject", help="Never deliver the messages again: they become dead letters."
        ),
    ] = False,
    release: Annotated[
        bool,
        typer.Option("--release", help="Return the messages at once, without counting a failure."),
    ] = False,
) -> None:
    """Return messages as failed, so that they are delivered again."""
    if ((reject or release) and delay is not None) or (reject and release):
        raise wrong("--delay, --reject and --release exclude each other")
    verb = "reject" if reject else "release" if release else "nack"
    more: dict[str, Any] = {} if delay is None else {"delay_seconds": delay}
    if reason is not None and not release:
        more["reason"] = reason
    _settle_given(context, subscription, verb, ids, message_id, more)


def _settle_given(
    context: typer.Context,
    subscription: str,
    verb: str,
    ids: list[str] | None,
    by_message_id: bool,
    more: dict[str, Any],
) -> None:
    here = Invocation.of(context)
    member = "message_id" if by_message_id else "ack_id"
    chosen = ids or [each[member] for each in _messages_of_stdin(member)]
    if not chosen:
        raise wrong(f"no {member} given")
    failed = _settle(here, subscription, verb, chosen, more, f"{member}s")
    if failed:
        raise typer.Exit(ExitCode.CONFLICT)


def _settle(
    here: Invocation,
    subscription: str,
    verb: str,
    ids: list[str],
    more: dict[str, Any],
    member: str = "ack_ids",
) -> int:
    """Report refused items and the number of others; return how many were refused."""
    done, failures = 0, []
    where = path("subscriptions", subscription, verb)
    for at in range(0, len(ids), MAX_IDS):
        wanted = {member: ids[at : at + MAX_IDS], **more}
        answer = here.api.post(where, wanted, safe=verb == "ack")
        done += answer.get("acked", answer.get("done", 0))
        failures += [{**each, "index": each["index"] + at} for each in answer["results"]]
    for each in failures:
        reason = each.get("detail") or each["type"].rpartition("/")[2]
        here.output.warning(f"packetboat: {ids[each['index']]}: {each['status']} {reason}")
    here.output.note(f"{verb}: {done} done, {len(failures)} refused")
    return len(failures)


def _messages_of_stdin(member: str) -> list[dict[str, Any]]:
    if sys.stdin.isatty():
        return []
    try:
        found = [json.loads(line) for line in sys.stdin if line.strip()]
    except ValueError as error:
        raise wrong(f"stdin is not NDJSON: {error}") from None
    if not all(isinstance(each, dict) and each.get(member) for each in found):
        raise wrong(f"a line of stdin has no {member}")
    return found
