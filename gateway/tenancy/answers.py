"""The answers of the routes of this package, and the checks that several of them share."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TypeVar
from urllib.parse import quote

import msgspec
from msgspec import UNSET, UnsetType

from auth.policies import BadGrant
from edge.asgi import Scope, Send, path_param, respond
from edge.problem import FieldError, Problem, invalid, not_found
from gateway.http.decoding import Query, etag
from gateway.names import name_errors
from gateway.topics.topics import precondition_failed
from metadata.errors import Conflict, LastOwner, NotFound, TooManySecrets
from metadata.tenancy.credentials import Secret
from openapi import access
from openapi.common import PAGE_SIZE
from openapi.contract import Answer

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


def name_of(given: str | UnsetType, path_name: str | None) -> tuple[str, list[FieldError]]:
    """Return the name that a body gives and its errors; a path has the name of a PUT.

    Raise a 409 Problem if the body gives another name than the path.
    """
    if path_name is None:
        name = "" if given is UNSET else given
    else:
        same_name(given, path_name)
        name = path_name
    return name, name_errors(name)


def name_in_path(scope: Scope, kind: str) -> str:
    """Return the name in the path; raise a 404 Problem if nothing can have it."""
    name = path_param(scope, "name")
    if name_errors(name):
        raise not_found(kind, name)
    return name


def same_name(given: str | UnsetType, name: str) -> None:
    """Raise a 409 Problem if a body gives another name than its path."""
    if given is not UNSET and given != name:
        detail = f"it is {name!r} by the path"
        raise Problem(
            409,
            "immutable-field",
            "The field cannot be changed",
            f"name cannot be changed: {detail}.",
            errors=[FieldError("name", detail)],
        )


def page_size_of(query: Query) -> int:
    return query.integer(PAGE_SIZE)


def secrets_view(secrets: Sequence[Secret]) -> list[access.SecretShown]:
    """Return the beginning of each secret, and never more of one."""
    return [
        access.SecretShown(secret.prefix, secret.created_at, secret.expires_at)
        for secret in secrets
    ]


def extended(kind: type[M], shown: Answer, **more: object) -> M:
    """Return an answer of a class that has the fields of another and some more."""
    return kind(**msgspec.structs.asdict(shown), **more)


@asynccontextmanager
async def refusals(kind: str, *, taken: str = "") -> AsyncIterator[None]:
    """Raise refusals of the metadata store as problems. `taken` is the name that may exist."""
    try:
        yield
    except Conflict as error:
        if taken and error.existing is not None:
            detail = f"There is a {kind} {taken!r} already."
            raise Problem(409, "already-exists", "Exists already", detail) from error
        raise precondition_failed(kind) from error
    except LastOwner as error:
        raise Problem(
            409,
            "last-owner",
            "The last owner",
            "Nobody would be left who may give others their roles: make another owner first, or "
            "say force=true.",
        ) from error
    except TooManySecrets as error:
        raise Problem(
            409,
            "too-many-secrets",
            "Too many secrets",
            f"{error.limit} secrets hold already: remove one, or wait until it expires.",
        ) from error


async def update_or_create(
    kind: str,
    if_version: int | None,
    update: Callable[[], Awaitable[V]],
    create: Callable[[], Awaitable[V]],
) -> tuple[V, bool]:
    """Update a thing or create it; return it, and whether it was created.

    It is idempotent beside others that do the same. Raise a 412 Problem if the thing does not exist
    and a version was named.
    """
    while True:
        try:
            async with refusals(kind):
                return await update(), False
        except NotFound as error:
            if error.kind != kind:
                raise
            if if_version is not None:
                raise precondition_failed(kind) from error
        try:
            return await create(), True
        except Conflict as error:
            if error.existing is None:
                raise


async def respond_one(
    send: Send,
    status: int,
    view: object,
    version: int,
    *,
    location: tuple[str, ...] = (),
    secret: bool = False,
) -> None:
    """Answer with a thing and its ETag. No cache may keep an answer that shows a secret."""
    headers = [etag(version)]
    if location:
        path = "".join("/" + quote(part, safe="") for part in location)
        headers.append((b"location", path.encode("ascii")))
    if secret:
        headers.append((b"cache-control", b"no-store"))
    await respond(send, status, msgspec.json.encode(view), headers=headers)


async def respond_listing(send: Send, page: Answer) -> None:
    """Answer with one page of a listing."""
    await respond(send, 200, msgspec.json.encode(page))


async def respond_page(
    send: Send, name: str, items: Sequence[object], next_page_token: str | None
) -> None:
    listing = {name: items, "next_page_token": next_page_token}
    await respond(send, 200, msgspec.json.encode(listing))


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
