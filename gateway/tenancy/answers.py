"""What the routes of this package answer with, and the checks that several of them share."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Annotated, TypeVar
from urllib.parse import quote

import msgspec

from edge.asgi import Send, respond
from edge.problem import FieldError, Problem, invalid
from gateway.http.decoding import Query, etag
from gateway.topics.topics import precondition_failed
from gateway.visible import MAX_PAGE_SIZE
from metadata.errors import Conflict, LastOwner, NotFound, TooManySecrets
from metadata.tenancy.credentials import Secret

MAX_DISPLAY_NAME_CHARS = 255
MAX_OVERLAP_S = 30 * 86_400
DEFAULT_OVERLAP_S = 86_400
V = TypeVar("V")
DisplayName = Annotated[str, msgspec.Meta(max_length=MAX_DISPLAY_NAME_CHARS)]
OverlapSeconds = Annotated[int, msgspec.Meta(ge=0, le=MAX_OVERLAP_S)]

_RFC_3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})"
)


class Rotation(msgspec.Struct, forbid_unknown_fields=True):
    """For how long what there was holds beside what follows it."""

    old_expires_in_seconds: OverlapSeconds = DEFAULT_OVERLAP_S

    def old_until(self, now: datetime) -> datetime:
        return now + timedelta(seconds=self.old_expires_in_seconds)


def utc_now() -> datetime:
    return datetime.now(UTC)


def text_errors(text: str, field: str) -> list[FieldError]:
    """Of what people read."""
    if any(char < " " or char == "\x7f" for char in text):
        return [FieldError(field, "no control characters")]
    return []


def same_name(given: str | msgspec.UnsetType, name: str) -> None:
    """Of a body, where the path names it too: 409."""
    if given is not msgspec.UNSET and given != name:
        detail = f"it is {name!r} by the path"
        raise Problem(
            409,
            "immutable-field",
            "The field cannot be changed",
            f"name cannot be changed: {detail}.",
            errors=[FieldError("name", detail)],
        )


def page_size_of(query: Query) -> int:
    return query.integer("page_size", 100, 1, MAX_PAGE_SIZE)


def secrets_view(secrets: Sequence[Secret]) -> list[dict[str, object]]:
    """How they begin, never more."""
    return [
        {
            "prefix": secret.prefix,
            "created_at": secret.created_at,
            "expires_at": secret.expires_at,
        }
        for secret in secrets
    ]


@asynccontextmanager
async def refusals(kind: str, *, taken: str = "") -> AsyncIterator[None]:
    """Of the metadata store, as problems. `taken` is the name that may be somebody's already."""
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
    """Idempotent also beside others that do the same; True: it was created. 412 where it is not
    there and a version was named."""
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
    view: dict[str, object],
    version: int,
    *,
    location: tuple[str, ...] = (),
    secret: bool = False,
) -> None:
    """With its ETag. What shows a secret is kept by nobody on the way."""
    headers = [etag(version)]
    if location:
        path = "".join("/" + quote(part, safe="") for part in location)
        headers.append((b"location", path.encode("ascii")))
    if secret:
        headers.append((b"cache-control", b"no-store"))
    await respond(send, status, msgspec.json.encode(view), headers=headers)


async def respond_page(
    send: Send, name: str, items: Sequence[object], next_page_token: str | None
) -> None:
    listing = {name: items, "next_page_token": next_page_token}
    await respond(send, 200, msgspec.json.encode(listing))


def time_of(query: Query, name: str) -> datetime | None:
    """An RFC 3339 time; 400 naming the parameter."""
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
