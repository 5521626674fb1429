"""The answers of the routes of this package, and the checks that several of them share."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from auth.policies import BadGrant
from edge.asgi import Send, respond
from edge.parameters import Query
from edge.problem import FieldError, Problem, invalid
from gateway.names import name_errors
from gateway.resources import there_is
from metadata.tenancy.credentials import Secret
from openapi import access
from openapi.common import PAGE_SIZE
from openapi.contract import Answer, Body

V = TypeVar("V")
M = TypeVar("M", bound=Answer)

_RFC_3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})"
)


def old_until(body: access.Rotation, now: datetime) -> datetime:
    """Return the time at which the present secret ends."""
    return now + timedelta(seconds=body.old_expires_in_seconds)


def utc_now() -> datetime:
    return datetime.now(UTC)


def grant_errors(
    field: str, values: Sequence[str], check: Callable[[str], object]
) -> list[FieldError]:
    """Check each scope, member or resource of a field; `check` raises BadGrant."""
    errors = []
    for at, value in enumerate(values):
        try:
            check(value)
        except BadGrant as error:
            errors.append(FieldError(f"{field}[{at}]", str(error)))
        else:
            if any(char < " " or char == "\x7f" for char in value):
                errors.append(FieldError(f"{field}[{at}]", "no control characters"))
    return errors


def name_errors_of(given: str | UnsetType, name: str) -> list[FieldError]:
    """Check the name of a thing; raise a 409 Problem if a body gives another one than its path."""
    if given is not UNSET and given != name:
        detail = f"it is {name!r} by the path"
        raise Problem.of(
            "immutable-field",
            f"name cannot be changed: {detail}.",
            errors=[FieldError("name", detail)],
        )
    return name_errors(name)


def exists_already(kind: str) -> Callable[[str], Problem]:
    """Return the problem of a name that is taken, by the name."""

    def problem(name: str) -> Problem:
        return Problem.of("already-exists", there_is(kind, name))

    return problem


def page_size_of(query: Query) -> int:
    return query.integer(PAGE_SIZE)


def secrets_view(secrets: Sequence[Secret]) -> list[access.SecretShown]:
    """Return the beginning of each secret, and never more of one."""
    return [
        access.SecretShown(secret.prefix, secret.created_at, secret.expires_at)
        for secret in secrets
    ]


def extended(kind: type[M], shown: Answer | Body, **more: object) -> M:
    """Return an answer of a class that has the fields of another and some more."""
    return kind(**msgspec.structs.asdict(shown), **more)


async def respond_listing(send: Send, page: Answer) -> None:
    """Answer with one page of a listing."""
    await respond(send, 200, msgspec.json.encode(page))


def time_of(query: Query, name: str) -> datetime | None:
    """Return a time of RFC 3339; raise a 400 Problem that names the parameter."""
    text = query.text(name)
    if text is None:
        return None
    try:
        if not _RFC_3339.fullmatch(text):
            raise ValueError
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        errors = [FieldError(name, "a time with its offset from UTC: 2026-01-31T12:00:00Z")]
        raise invalid(f"The query parameter {name} does not fit.", errors, status=400) from None
