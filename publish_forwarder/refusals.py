"""The 422 of a field that is wrong."""

from __future__ import annotations

from typing import NoReturn

from edge.problem import FieldError, invalid


def refuse(name: str, detail: str) -> NoReturn:
    raise invalid(f"{name}: {detail}", [FieldError(name, detail)])
