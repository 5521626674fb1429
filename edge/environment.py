"""Settings that are all positive numbers, read from variables named after their fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

S = TypeVar("S")


def positive_numbers(settings: type[S], prefix: str, environment: Mapping[str, str]) -> S:
    """The dataclass with what the environment overrides; raises ValueError naming the variable."""
    given: dict[str, int | float] = {}
    kinds: Any = settings
    defaults = settings()
    for field in fields(kinds):
        variable = prefix + field.name.upper()
        text = environment.get(variable)
        if text is None:
            continue
        kind = type(getattr(defaults, field.name))
        try:
            value = kind(text)
        except ValueError:
            raise ValueError(f"{variable}={text!r} is not a number") from None
        if not value > 0:
            raise ValueError(f"{variable} must be above 0")
        given[field.name] = value
    return settings(**given)
