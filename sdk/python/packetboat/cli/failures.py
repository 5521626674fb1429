"""The report of a failure on stderr: each field that is wrong, the limit that was met, and
a hint; as JSON where the output is for programs.
"""

from __future__ import annotations

import json
from typing import Any

from packetboat.cli.exit_codes import ExitCode, exit_code_of
from packetboat.cli.output import Output, shown
from packetboat.errors import (
    ApiError,
    ConnectionFailed,
    NotAuthorized,
    NotFound,
    Overloaded,
    PacketboatError,
    Problem,
    ServerError,
    Unavailable,
    UnknownOutcome,
)


class CommandFailed(Exception):
    """Raised for an error that the command itself finds."""

    def __init__(
        self, text: str, code: ExitCode = ExitCode.FAILED, hint: str | None = None
    ) -> None:
        super().__init__(text)
        self.code = code
        self.hint = hint


def report(error: PacketboatError | CommandFailed, output: Output) -> ExitCode:
    """Says it, and answers the exit code."""
    code = error.code if isinstance(error, CommandFailed) else exit_code_of(error)
    described = describe(error)
    if output.for_programs:
        output.warning(json.dumps({**described, "exit_code": int(code)}, ensure_ascii=False))
        return code
    output.warning(f"packetboat: {_headline(error) or type(error).__name__}")
    for wrong in described.get("errors", ()):
        output.warning(f"  {wrong['field']}: {wrong['detail']}")
    for name, value in described.items():
        if name not in _SAID:
            output.warning(f"  {name}: {shown(value)}")
    if "hint" in described:
        output.warning(f"  Try: {described['hint']}")
    return code


def _headline(error: PacketboatError | CommandFailed) -> str:
    """Without the fields: they have lines of their own."""
    if not isinstance(error, ApiError):
        return str(error)
    problem = error.problem
    text = f"{problem.status} {problem.slug}: {problem.detail or problem.title}"
    return text + str(error).removeprefix(error.text)


_SAID = frozenset({"type", "title", "status", "detail", "instance", "errors", "hint"})


def describe(error: PacketboatError | CommandFailed) -> dict[str, Any]:
    """Return a failure as problem+json has it; `hint` names a remedy."""
    problem: Problem | None = getattr(error, "problem", None)
    described: dict[str, Any] = {"type": "about:blank", "title": type(error).__name__}
    described["detail"] = str(error)
    if problem is not None:
        described = {"type": problem.type, "title": problem.title, "status": problem.status}
        described |= {"detail": problem.detail, "instance": problem.instance}
        if problem.errors:
            described["errors"] = [{"field": e.field, "detail": e.detail} for e in problem.errors]
        described |= {n: v for n, v in problem.members.items() if n not in described}
    if isinstance(error, ApiError) and error.retry_after_s is not None:
        described["retry_after_seconds"] = error.retry_after_s
    key = getattr(error, "idempotency_key", None)
    if key is not None:
        described["idempotency_key"] = key
    hint = error.hint if isinstance(error, CommandFailed) else hint_for(error)
    return described | ({"hint": hint} if hint else {})


def hint_for(error: PacketboatError) -> str | None:
    """Return a hint for an error, if we have one."""
    if isinstance(error, NotAuthorized):
        if error.status == 401:
            return (
                "`packetboat login`, or set PACKETBOAT_TOKEN; `packetboat whoami` shows who you are"
            )
        return "`packetboat whoami` shows what you may; an owner of the tenant grants the rest"
    if isinstance(error, ConnectionFailed):
        return "`packetboat doctor` looks at what is in the way"
    if isinstance(error, NotFound):
        noun = error.slug.removesuffix("-not-found")
        return f"`packetboat {_LISTS[noun]}` shows what there is" if noun in _LISTS else None
    if isinstance(error, Overloaded | Unavailable):
        return "again later; nothing was done"
    if isinstance(error, UnknownOutcome):
        return "look whether it took effect before doing it again"
    if isinstance(error, ServerError):
        return "`packetboat doctor`, and the log of the server"
    return None


_LISTS = {
    "client": "clients list",
    "export": "export list",
    "issuer": "issuers list",
    "job": "jobs list",
    "key": "keys list",
    "lock": "locks list",
    "policy": "policies list",
    "pool": "pools list",
    "schedule": "schedules list",
    "schema": "schemas list",
    "snapshot": "snapshots list",
    "subscription": "subscriptions list",
    "tenant": "tenants list",
    "topic": "topics list",
}
