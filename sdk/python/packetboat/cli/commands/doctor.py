"""`packetboat doctor`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from importlib.metadata import version
from itertools import islice
from typing import Annotated, Any, NamedTuple

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
from packetboat.errors import InvalidRequest, NotAuthorized, NotFound, PacketboatError

app: typer.Typer = typer.Typer()
MAX_FILTERS = 200
"""Maximum number of expressions to check, of subscriptions and of exports."""
_TOO_MANY = "names, literals and operators"
"""Part of the server's text on an expression that has more of them than a new one may."""
MAX_TENANTS = 1_000
"""Maximum number of tenants whose limits are checked: each takes a request."""
_HOLDS = "holds as it is, and would be refused if it was set anew"
_WEAK = {
    "unproved": "nothing proves that its tokens are this tenant's; 0.2 asked for no proof",
    "withdrawn": "the operator took it back: its tokens are refused",
}
_LIMIT_ALL = "set PACKETBOAT_QUOTA_STORED_BYTES and the like for all: docs/operations/upgrade.md"
_MARKS = {Level.OK: ("ok  ", "32"), Level.WARN: ("warn", "33"), Level.FAIL: ("FAIL", "31")}


@add(app, "doctor", example="packetboat doctor -o json")
def doctor(
    context: typer.Context,
    metrics_url: Annotated[
        str | None,
        typer.Option(help="URL of a server's metrics to check, such as http://127.0.0.1:8095."),
    ] = None,
) -> None:
    """Find problems and suggest solutions; exit code 1 if a check fails."""
    here = Invocation.of(context)
    found = []

    def told() -> Iterator[Finding]:
        for finding in _findings(here, metrics_url):
            found.append(finding)
            yield finding

    if here.output.format is Format.TABLE:
        for finding in told():
            _show(here, finding)
    else:
        here.output.rows(finding._asdict() for finding in told())
    if any(finding.level is Level.FAIL for finding in found):
        raise typer.Exit(ExitCode.FAILED)


def _findings(here: Invocation, metrics_url: str | None) -> Iterator[Finding]:
    """Run the checks; skip those that depend on a failed one."""
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
    if metrics_url is not None:
        yield from checks.metrics(here.plain_transport_to(metrics_url))
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
    yield from _issuers(api)
    yield from _forwarders(api)
    yield from _exempt(api)


def _exempt(api: Api) -> Iterator[Finding]:
    """Check for tenants without the built-in limits; only operators may do so."""
    try:
        names = [each["name"] for each in islice(api.pages("/tenants", "tenants"), MAX_TENANTS + 1)]
        for name in names[:MAX_TENANTS]:
            try:
                quotas = api.get(path("tenants", name, "quotas"))
            except NotFound:
                continue
            if quotas.get("exempt"):
                limits = ", ".join(quotas["exempt"])
                detail = f"{name} is older than the default limits, and has none of {limits}"
                yield Finding("quotas", Level.WARN, detail, _limiting(name, quotas))
    except NotAuthorized:
        return
    except PacketboatError as error:
        yield Finding("quotas", Level.FAIL, str(error), hint_for(error))
        return
    if len(names) > MAX_TENANTS:
        detail = f"only the first {MAX_TENANTS} tenants were checked for limits"
        yield Finding("quotas", Level.WARN, detail, _LIMIT_ALL)


def _limiting(name: str, quotas: dict[str, Any]) -> str:
    """Return the fix of an exempt tenant: a command that keeps its own limits and adds the rest."""
    own = [f"{limit}={_number(number or 0)}" for limit, number in quotas["own"].items()]
    wanted = " ".join([*own, *(f"{limit}=…" for limit in quotas["exempt"])])
    weight = "" if quotas["weight"] == 1 else f" --weight {_number(quotas['weight'])}"
    return f"`packetboat quotas set {name} {wanted}{weight}`, or {_LIMIT_ALL}"


def _number(number: float) -> str:
    return str(int(number) if number == int(number) else number)


def _issuers(api: Api) -> Iterator[Finding]:
    """Check for issuers with unproved or rejected tokens; only owners may do so."""
    try:
        weak = [each for each in api.pages("/issuers", "issuers") if each.get("trust") in _WEAK]
        fix = f"let its tokens name {api.get('/whoami')['token_audience']}" if weak else ""
    except NotAuthorized:
        return
    except PacketboatError as error:
        yield Finding("issuers", Level.FAIL, str(error), hint_for(error))
        return
    for each in weak:
        name, why = each["name"], _WEAK[each["trust"]]
        again = f"{fix}, then `packetboat issuers set {name} --issuer {each['issuer']}`"
        yield Finding("issuers", Level.WARN, f"{name}: {why}", again)


def _topics(api: Api) -> Iterator[Finding]:
    """Check for full topics: they refuse publishes, or drop their oldest messages."""
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


class _Stored(NamedTuple):
    """An expression that was accepted once. The server tries it at `preview`; `effect` is the
    effect if this version refuses it, and `fix` is the command that changes it."""

    name: str
    text: str
    preview: str
    effect: str
    fix: str


def _filters(api: Api) -> Iterator[Finding]:
    """Check for expressions that an earlier version accepted and this one refuses.

    The server checks each with a preview over one message.
    """
    for stored in (_of_subscriptions(api), _of_exports(api)):
        try:
            for each in islice(stored, MAX_FILTERS):
                why = _refusal(api, each)
                if why is not None:
                    effect = _HOLDS if _TOO_MANY in why else each.effect
                    detail = f"{each.name} {effect}: {why}"
                    yield Finding("filters", Level.WARN, detail, each.fix)
        except (NotAuthorized, NotFound):
            continue
        except PacketboatError as error:
            yield Finding("filters", Level.FAIL, str(error), hint_for(error))


def _of_subscriptions(api: Api) -> Iterator[_Stored]:
    """Return the filters and the skip rules of subscriptions."""
    for each in islice(api.pages("/subscriptions", "subscriptions"), MAX_FILTERS):
        name = each["name"]
        preview = path("subscriptions", name, verb="preview_filter")
        if each.get("filter"):
            fix = f"`packetboat subscriptions update {name} --filter …`"
            whose = f"the filter of {name}"
            yield _Stored(whose, each["filter"], preview, "lets nothing through", fix)
        for rule in api.get(path("subscriptions", name, "skip_rules"))["skip_rules"]:
            fix = f"`packetboat skip-rules remove {name} {rule['id']}`, and add a rule that holds"
            whose = f"the skip rule {rule['id']} of {name}"
            yield _Stored(whose, rule["expression"], preview, "skips nothing", fix)


def _of_exports(api: Api) -> Iterator[_Stored]:
    """Return the filters of exports. A refusal does not depend on the topic, so the preview uses
    any topic of the export."""
    for each in api.pages("/exports", "exports"):
        if not each.get("filter"):
            continue
        pattern = each["topic"]
        topics = (topic["name"] for topic in api.pages("/topics", "topics"))
        topic = next((name for name in topics if fnmatchcase(name, pattern)), None)
        if topic is not None:
            fix = f"`packetboat export change {each['name']} --filter …`"
            whose = f"the filter of the export {each['name']}"
            preview = path("topics", topic, verb="preview_filter")
            yield _Stored(whose, each["filter"], preview, "makes its runs fail", fix)


def _refusal(api: Api, stored: _Stored) -> str | None:
    """Return why this version refuses an expression; None if it does not, or if its owner is
    gone."""
    try:
        api.post(stored.preview, {"filter": stored.text, "messages": 1}, safe=True)
    except InvalidRequest as refused:
        return refused.errors[0].detail if refused.errors else str(refused)
    except NotFound:
        pass
    return None


def _forwarders(api: Api) -> Iterator[Finding]:
    """Check for live forwarders; only operators may do so."""
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
