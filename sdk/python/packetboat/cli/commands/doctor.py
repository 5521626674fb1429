"""`packetboat doctor`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version

import typer

from packetboat import profiles
from packetboat.cli import checks
from packetboat.cli.api import Api, path
from packetboat.cli.checks import Finding, Level
from packetboat.cli.exit_codes import ExitCode
from packetboat.cli.failures import hint_for
from packetboat.cli.invocation import Invocation
from packetboat.cli.output import Format, colored, printable
from packetboat.cli.shared_options import add
from packetboat.errors import InvalidRequest, NotAuthorized, PacketboatError

app: typer.Typer = typer.Typer()
MAX_FILTERS = 200
"""Of which the server is asked."""
_MARKS = {Level.OK: ("ok  ", "32"), Level.WARN: ("warn", "33"), Level.FAIL: ("FAIL", "31")}


@add(app, "doctor", example="packetboat doctor -o json")
def doctor(context: typer.Context) -> None:
    """Look for what is wrong, and say what helps; exit code 1 if anything fails."""
    here = Invocation.of(context)
    found = []

    def told() -> Iterator[Finding]:
        for finding in _findings(here):
            found.append(finding)
            yield finding

    if here.output.format is Format.TABLE:
        for finding in told():
            _show(here, finding)
    else:
        here.output.rows(finding._asdict() for finding in told())
    if any(finding.level is Level.FAIL for finding in found):
        raise typer.Exit(ExitCode.FAILED)


def _findings(here: Invocation) -> Iterator[Finding]:
    """Those that need what failed are left out."""
    yield from checks.profile_file(profiles.path())
    target = here.target
    plain = here.plain_transport
    found, response = checks.connection(target, plain)
    yield from found
    yield from checks.encryption(target)
    if response is None:
        return
    yield from checks.clock(response, time.time())
    yield from checks.version(plain, version("packetboat-client"))
    yield from checks.readiness(plain)
    yield from checks.metrics(plain)
    yield from _credential(here)


def _credential(here: Invocation) -> Iterator[Finding]:
    if here.target.credential_from is None:
        fix = "`packetboat login`, or set PACKETBOAT_TOKEN"
        yield Finding("credential", Level.FAIL, "there is none for this server", fix)
        return
    api = Api(here.api.sender, checks.TIMEOUT_S)
    try:
        yield from checks.token(api.get("/whoami"), datetime.now(UTC))
    except PacketboatError as error:
        yield Finding("credential", Level.FAIL, str(error), hint_for(error))
        return
    yield from _topics(api)
    yield from _filters(api)
    yield from _forwarders(api)


def _topics(api: Api) -> Iterator[Finding]:
    """Which are full: publishes to them are refused, or the oldest messages end."""
    try:
        full = [each["name"] for each in api.pages("/topics", "topics") if each.get("full")]
    except NotAuthorized:
        return
    except PacketboatError as error:
        yield Finding("topics", Level.FAIL, str(error), hint_for(error))
        return
    for name in full:
        fix = "ack, shorten the retention, or raise its limit: `packetboat topics get`"
        yield Finding("topics", Level.WARN, f"{name} is full", fix)


def _filters(api: Api) -> Iterator[Finding]:
    """Which an earlier version took and this one refuses: they let no message through. The server
    is asked, by a preview of each filter with one message."""
    try:
        filtered = [
            (each["name"], each["filter"])
            for each in api.pages("/subscriptions", "subscriptions")
            if each.get("filter")
        ]
        for name, text in filtered[:MAX_FILTERS]:
            try:
                where = path("subscriptions", name, verb="preview_filter")
                api.post(where, {"filter": text, "messages": 1}, safe=True)
            except InvalidRequest as refused:
                why = refused.errors[0].detail if refused.errors else str(refused)
                detail = f"the filter of {name} lets nothing through: {why}"
                yield Finding("filters", Level.WARN, detail, "`packetboat subscriptions update`")
    except NotAuthorized:
        return
    except PacketboatError as error:
        yield Finding("filters", Level.FAIL, str(error), hint_for(error))


def _forwarders(api: Api) -> Iterator[Finding]:
    """Whether anybody delivers; only operators may look."""
    try:
        count = len(api.get("/forwarders")["forwarders"])
    except PacketboatError:
        return
    if count:
        yield Finding("delivery", Level.OK, f"{count} subscribe forwarder{'s' * (count > 1)}")
    else:
        fix = "start `packetboat serve --role subscribe`"
        yield Finding("delivery", Level.FAIL, "no subscribe forwarder lives", fix)


def _show(here: Invocation, finding: Finding) -> None:
    mark, colour = _MARKS[finding.level]
    shown = f"\x1b[{colour}m{mark}\x1b[0m" if colored() else mark
    if here.output.quiet and finding.level is Level.OK:
        return
    here.output.text(f"{shown}  {printable(f'{finding.check}: {finding.detail}')}\n")
    if finding.fix:
        here.output.text(f"      → {printable(finding.fix)}\n")
    sys.stdout.flush()
