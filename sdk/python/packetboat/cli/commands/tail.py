"""`packetboat tail`: messages as they come."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import typer

from packetboat.calls.call import long_poll_s
from packetboat.cli.api import path
from packetboat.cli.arguments import moment, wrong
from packetboat.cli.completing import subscription_names, topic_names
from packetboat.cli.invocation import Invocation
from packetboat.cli.messages import DATA, PRETTY, pretty
from packetboat.cli.output import Format
from packetboat.cli.shared_options import add
from packetboat.errors import NotFound, PacketboatError, UnknownOutcome

app: typer.Typer = typer.Typer()
MESSAGES_A_PULL = 250
WAIT_S = 20.0
QUIET_S = 1.0
"""Seconds without a message after which the command ends, unless it has `--follow`."""


@add(app, "tail", example="packetboat tail orders --from-start --max 100 -o ndjson")
def tail(
    context: typer.Context,
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="[TOPIC]",
            help="Read this topic through a temporary subscription.",
            autocompletion=topic_names,
        ),
    ] = None,
    subscription: Annotated[
        str | None,
        typer.Option(
            "--subscription",
            "-s",
            help="Read from this subscription instead.",
            autocompletion=subscription_names,
        ),
    ] = None,
    ack: Annotated[
        bool,
        typer.Option(
            "--ack/--no-ack", help="With --subscription: ack shown messages, or return them."
        ),
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Continue after the last message.")
    ] = True,
    max_: Annotated[
        int | None, typer.Option("--max", "-n", help="Stop after this number of messages.", min=1)
    ] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Begin with the oldest message.")
    ] = False,
    since: Annotated[
        str | None, typer.Option(help="Begin at a time, or an age such as 10m.")
    ] = None,
    filter_: Annotated[
        str | None, typer.Option("--filter", help="Only messages that this CEL expression matches.")
    ] = None,
    data: Annotated[bool, typer.Option("--data", help="Print only the bodies.")] = False,
) -> None:
    """Show messages as they arrive, until Ctrl-C."""
    here = Invocation.of(context)
    if (topic is None) == (subscription is None):
        raise wrong("either a TOPIC or --subscription")
    if subscription is not None and (from_start or since or filter_):
        raise wrong("--from-start, --since and --filter go with a TOPIC; see `packetboat seek`")
    if from_start and since:
        raise wrong("either --from-start or --since")
    if topic is None:
        assert subscription is not None
        _show(here, subscription, ack=ack, follow=follow, most=max_, data=data)
        return
    start: object = {"time": moment(since).isoformat()} if since else "latest"
    with _temporary(here, topic, "earliest" if from_start else start, filter_) as name:
        _show(here, name, ack=True, follow=follow, most=max_, data=data)


@contextmanager
def _temporary(here: Invocation, topic: str, start: object, filter_: str | None) -> Iterator[str]:
    """Return a name that shows the purpose of the subscription if a crash leaves it behind."""
    name = f"tail-{secrets.token_hex(6)}"
    wanted = {"name": name, "start": start, "labels": {"made-by": "packetboat-tail"}}
    if filter_ is not None:
        wanted["filter"] = filter_
    try:
        here.api.post(path("topics", topic, "subscriptions"), wanted)
    except (KeyboardInterrupt, UnknownOutcome):
        _delete(here, name)  # it may be there
        raise
    try:
        yield name
    finally:
        _delete(here, name)


def _delete(here: Invocation, name: str) -> None:
    try:
        here.api.delete(path("subscriptions", name), force=True)
    except NotFound:
        pass
    except PacketboatError as error:
        here.output.warning(f"packetboat: the subscription {name!r} is left behind: {error}")


def _show(
    here: Invocation, name: str, *, ack: bool, follow: bool, most: int | None, data: bool
) -> None:
    messages = _messages(here, name, ack=ack, follow=follow, most=most)
    with suppress(KeyboardInterrupt):  # while it prints
        if data or here.output.format is Format.TABLE:
            style = DATA if data else PRETTY
            for each in messages:
                here.output.text(pretty(each, style))
        else:
            here.output.rows(messages, "message_id")
    messages.close()


def _messages(
    here: Invocation, name: str, *, ack: bool, follow: bool, most: int | None
) -> Generator[dict[str, Any], None, None]:
    """Release messages that were not shown, and without `ack` all messages."""
    where = path("subscriptions", name)
    left = most
    held: list[str] = []
    shown: list[str] = []
    wait_s = long_poll_s(WAIT_S if follow else QUIET_S, here.timeout_s)
    try:
        while left is None or left > 0:
            size = MESSAGES_A_PULL if left is None else min(left, MESSAGES_A_PULL)
            query = {"max_messages": size, "wait_seconds": wait_s}
            messages = here.api.get(f"{where}/messages", wait_s=wait_s, **query)["messages"]
            if not messages and not follow:
                return
            held += [each["ack_id"] for each in messages if each["ack_id"]]
            for each in messages:
                yield each
                shown += [each["ack_id"]] if ack and each["ack_id"] else []
            sys.stdout.flush()
            left = None if left is None else left - len(messages)
            if shown:
                here.api.post(f"{where}/ack", {"ack_ids": shown}, safe=True)
                held, shown = [], []
    except KeyboardInterrupt:
        pass  # how it is meant to end: what is printed becomes a whole document
    finally:
        _settle(here, where, shown, [each for each in held if each not in set(shown)])


def _settle(here: Invocation, where: str, shown: list[str], rest: list[str]) -> None:
    """Release leases at the end, and ignore expired ones."""
    with suppress(PacketboatError):
        if shown:
            here.api.post(f"{where}/ack", {"ack_ids": shown}, safe=True)
        for at in range(0, len(rest), 1000):
            here.api.post(f"{where}/release", {"ack_ids": rest[at : at + 1000]})
