"""The 422 of a field that is wrong, or that belongs to a later version."""

from __future__ import annotations

from typing import NoReturn

from edge.problem import FieldError, Problem, invalid


def refuse(name: str, detail: str) -> NoReturn:
    raise invalid(f"{name}: {detail}", [FieldError(name, detail)])


def not_yet(field: str, what: str) -> Problem:
    """For what the API has a name for and this version would otherwise have to ignore."""
    detail = f"{what} is not available in this version; the message was not accepted."
    return Problem(
        422,
        "not-yet-supported",
        "Not yet supported",
        f"{field}: {detail}",
        errors=[FieldError(field, detail)],
    )
