"""RFC 9457 problem details, the form of every error that Packetboat answers with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import msgspec

from openapi.problems import PROBLEMS

TYPE_BASE = "https://packetboat.dev/problems/"
"""A problem's `type` is this and its slug; docs/problems.md has a section for each slug."""


class FieldError(NamedTuple):
    """A field that is wrong: its name (dotted, with indices) and how to correct it."""

    field: str
    detail: str


class Problem(Exception):
    """An error that any code may raise; the error middleware turns it into problem+json.

    `slug` names the type; `detail` says what happened, the limit, and what to do. `retry_after_s`
    becomes a Retry-After header; `extra` holds members beyond the standard ones. `of` makes a
    problem of this process; the constructor takes one from elsewhere as it is.
    """

    def __init__(
        self,
        status: int,
        slug: str,
        title: str,
        detail: str = "",
        *,
        errors: Sequence[FieldError] = (),
        retry_after_s: float | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(f"{status} {slug}: {detail or title}")
        self.status = status
        self.slug = slug
        self.title = title
        self.detail = detail
        self.errors = tuple(errors)
        self.retry_after_s = retry_after_s
        self.headers = dict(headers or {})
        self.extra = dict(extra or {})

    @classmethod
    def of(
        cls,
        slug: str,
        detail: str = "",
        *,
        status: int | None = None,
        errors: Sequence[FieldError] = (),
        retry_after_s: float | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> Problem:
        """Return a problem with the status and the title that the contract has for its type."""
        kind = PROBLEMS[slug]
        return cls(
            kind.status if status is None else status,
            slug,
            kind.title,
            detail,
            errors=errors,
            retry_after_s=retry_after_s,
            headers=headers,
            extra=extra,
        )

    def as_dict(self, instance: str | None = None) -> dict[str, object]:
        """Return the members of the JSON object without empty ones; also used per item of a
        batch.
        """
        members: dict[str, object] = {
            "type": TYPE_BASE + self.slug,
            "title": self.title,
            "status": self.status,
        }
        if self.detail:
            members["detail"] = self.detail
        if instance:
            members["instance"] = instance
        if self.errors:
            members["errors"] = [error._asdict() for error in self.errors]
        return members | self.extra

    def to_json(self, instance: str | None = None) -> bytes:
        return msgspec.json.encode(self.as_dict(instance))

    def form(self) -> ProblemForm:
        """Return the problem in the form in which other processes of ours get it."""
        return ProblemForm(
            self.status,
            self.slug,
            self.title,
            self.detail,
            list(self.errors),
            self.retry_after_s,
            self.headers,
            self.extra,
        )


class ProblemForm(msgspec.Struct, array_like=True):
    """A problem in MessagePack."""

    status: int
    slug: str
    title: str
    detail: str
    errors: list[FieldError]
    retry_after_s: float | None
    headers: dict[str, str]
    extra: dict[str, Any]

    def problem(self) -> Problem:
        return Problem(
            self.status,
            self.slug,
            self.title,
            self.detail,
            errors=self.errors,
            retry_after_s=self.retry_after_s,
            headers=self.headers,
            extra=self.extra,
        )


def not_found(kind: str, name: str) -> Problem:
    """Return a 404 Problem, also for a resource of another tenant."""
    return Problem.of(f"{kind}-not-found", f"There is no {kind} {name!r}.")


def unavailable(what: str, detail: str, retry_after_s: float = 1.0) -> Problem:
    """Return a 503 Problem for a request of which nothing was accepted."""
    return Problem.of(f"{what}-unavailable", detail, retry_after_s=retry_after_s)


def preceding_item_failed() -> Problem:
    """Return the 424 for an item of a batch that follows a failed one of its key."""
    return Problem.of(
        "preceding-item-failed",
        "An earlier item of this key was not accepted; this one is not stored, to keep order.",
    )


def invalid(detail: str, errors: Sequence[FieldError], *, status: int = 422) -> Problem:
    """Return a Problem for wrong fields: 422 for bodies and headers, 400 for query parameters."""
    return Problem.of("invalid-request", detail, status=status, errors=errors)


def refuse(name: str, detail: str) -> NoReturn:
    """Raise the 422 Problem of one wrong field."""
    raise invalid(f"{name}: {detail}", [FieldError(name, detail)])
