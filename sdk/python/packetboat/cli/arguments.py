"""Arguments and options of several commands, and the parsers of their values."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from packetboat.cli.completing import subscription_names, topic_names
from packetboat.cli.exit_codes import ExitCode
from packetboat.cli.failures import CommandFailed

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name.")]
Topic = Annotated[
    str, typer.Argument(metavar="TOPIC", help="The topic.", autocompletion=topic_names)
]
Subscription = Annotated[
    str,
    typer.Argument(
        metavar="SUBSCRIPTION", help="The subscription.", autocompletion=subscription_names
    ),
]
Limit = Annotated[int | None, typer.Option("--limit", help="Maximum number of results.", min=1)]
Force = Annotated[bool, typer.Option("--force", help="Do it even if data is lost.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="MEMBER=VALUE",
        help="Any member of the API's body: VALUE is JSON, else a string; MEMBER may have dots.",
    ),
]
File = Annotated[
    Path | None,
    typer.Option("--file", "-f", help="The body as JSON; - for stdin. Options override it."),
]
Labels = Annotated[
    list[str] | None, typer.Option("--label", metavar="NAME=VALUE", help="May be repeated.")
]
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def body(
    file: Path | None = None,
    sets: list[str] | None = None,
    labels: list[str] | None = None,
    **named: Any,
) -> dict[str, Any]:
    """Return the body to send: the file, overridden by named options, overridden by `--set`."""
    made: dict[str, Any] = read_json(file) if file is not None else {}
    if not isinstance(made, dict):
        raise wrong(f"{file}: not a JSON object")
    made.update({name: value for name, value in named.items() if value is not None})
    if labels:
        made["labels"] = pairs(labels)
    for each in sets or ():
        member, value = _pair(each)
        _put(made, member.split("."), _json_or_text(value))
    return made


def read_json(file: Path) -> Any:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        return json.loads(text)
    except (OSError, ValueError) as error:
        raise wrong(f"{file}: {error}") from None


def pairs(given: list[str] | None) -> dict[str, str]:
    return dict(_pair(each) for each in given or ())


def moment(text: str) -> datetime:
    """Parse a time in RFC 3339, or an age: `90s`, `10m`, `2h`, `7d`, `2w`."""
    if re.fullmatch(r"\d+(?:\.\d+)?[smhdw]", text):
        return datetime.now(UTC) - timedelta(seconds=duration_s(text))
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise wrong(f"{text!r} is neither a time (2026-01-31T12:00:00Z) nor an age (2h)") from None
    if at.tzinfo is None:
        raise wrong(f"{text!r} has no time zone; Z is UTC")
    return at


def duration_s(text: str) -> float:
    """Parse a duration: a number of seconds, or `90s`, `10m`, `2h`, `7d`, `2w`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw]?)", text)
    if not found:
        raise wrong(f"{text!r} is not a duration: a number of seconds, or 10m, 2h, 7d")
    return float(found[1]) * _UNITS_S[found[2] or "s"]


def wrong(text: str) -> CommandFailed:
    """An argument of the user is wrong."""
    return CommandFailed(text, ExitCode.USAGE)


def _pair(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found or not name:
        raise wrong(f"{text!r} is not NAME=VALUE")
    return name, value


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _put(target: dict[str, Any], path: list[str], value: Any) -> None:
    for name in path[:-1]:
        inner = target.setdefault(name, {})
        if not isinstance(inner, dict):
            raise wrong(f"{name!r} is not an object")
        target = inner
    target[path[-1]] = value
