"""Reads query parameters by the types and limits of the contract.

A value that does not fit is refused with a 400 Problem that names the parameter and its rule.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, get_args
from urllib.parse import parse_qs

from msgspec import UNSET

from edge.asgi import Scope
from edge.problem import FieldError, Problem, invalid
from openapi.contract import Parameter

_WHOLE = re.compile(r"[0-9]{1,18}")
_NUMBER = re.compile(r"[0-9]{1,18}(?:\.[0-9]{0,18})?(?:[eE][+-]?[0-9]{1,2})?")


class Query:
    """Holds the parameters of a query string; the last of a repeated one counts."""

    __slots__ = ("_values",)

    def __init__(self, scope: Scope) -> None:
        """Parse the query string of a request."""
        raw = scope["query_string"]
        self._values: dict[str, list[str]] = {}
        if raw:
            text = raw.decode("ascii", "replace")
            self._values = parse_qs(text, keep_blank_values=True, errors="replace")

    def all(self) -> dict[str, str]:
        """Return every parameter."""
        return {name: values[-1] for name, values in self._values.items()}

    def several(self, name: str) -> Sequence[str]:
        """Return every value of a parameter that may be repeated."""
        return self._values.get(name, ())

    def text(self, name: str) -> str | None:
        """Return the value of a parameter, or None."""
        values = self._values.get(name)
        return values[-1] if values else None

    def integer(self, parameter: Parameter) -> int:
        """Return a whole number of a parameter with a default; raise a 400 Problem for another."""
        number = integer_of(parameter, self.text(parameter.name))
        assert number is not None
        return number

    def number(self, parameter: Parameter) -> float:
        """Return a number of a parameter that has a default; raise a 400 Problem for another."""
        number = number_of(parameter, self.text(parameter.name))
        assert number is not None
        return number

    def choice(self, parameter: Parameter) -> Any:
        """Return one of a parameter's words, or its default."""
        return choice_of(parameter, self.text(parameter.name))

    def page_token(self) -> str | None:
        """Return the token of the page that is asked for; None asks for the first."""
        return self.text("page_token") or None

    def flag(self, name: str) -> bool:
        """Return a flag, false if it is absent; raise a 400 Problem for other words."""
        text = self.text(name)
        if text not in (None, "true", "false"):
            errors = [FieldError(name, "true or false")]
            raise invalid(f"The query parameter {name} does not fit.", errors, status=400)
        return text == "true"


def integer_of(parameter: Parameter, text: str | None) -> int | None:
    """Return a whole number, or the default without a text; raise a 400 Problem for another."""
    if text is None:
        default: int | None = _default(parameter)
        return default
    low, high = _limits(parameter)
    if _WHOLE.fullmatch(text) and low <= (number := int(text)) <= high:
        return number
    raise refused(parameter, f"an integer from {low} to {high}")


def number_of(parameter: Parameter, text: str | None) -> float | None:
    """Return a number, or the default without a text; raise a 400 Problem for another."""
    if text is None:
        default: float | None = _default(parameter)
        return default
    low, high = _limits(parameter)
    if _NUMBER.fullmatch(text) and low <= (number := float(text)) <= high:
        return number
    raise refused(parameter, f"a number from {low} to {high}")


def choice_of(parameter: Parameter, text: str | None) -> Any:
    """Return one of the words that the contract names; the default if the query has none."""
    words = get_args(parameter.kind)
    if text is None:
        return _default(parameter)
    if text not in words:
        raise refused(parameter, f"one of {', '.join(words)}")
    return text


def text_of(parameter: Parameter, text: str | None, rule: str = "") -> str | None:
    """Return a text that meets the parameter's length or pattern, or None without a text.

    Raises a 400 Problem otherwise; `rule` words the pattern in it.
    """
    if text is None:
        return None
    for limits in parameter.kind.__metadata__:
        if limits.pattern is not None and re.search(limits.pattern, text) is None:
            raise refused(parameter, rule or f"must match the pattern {limits.pattern}")
        least, most = limits.min_length or 0, limits.max_length
        if len(text) < least or (most is not None and (len(text) > most or "\0" in text)):
            sizes = [f"at least {least}"] * (least > 0) + [f"at most {most}"] * (most is not None)
            raise refused(parameter, f"{' and '.join(sizes)} characters")
    return text


def refused(parameter: Parameter, rule: str) -> Problem:
    """Return the refusal of a value that does not fit."""
    text = f"The query parameter {parameter.name} does not fit."
    return invalid(text, [FieldError(parameter.name, rule)], status=400)


def _limits(parameter: Parameter) -> tuple[int, int]:
    """Return the least and the greatest value of a parameter."""
    (limits,) = parameter.kind.__metadata__
    return limits.ge, limits.le


def _default(parameter: Parameter) -> Any:
    """Return the default value of a parameter, or None."""
    return None if parameter.default is UNSET else parameter.default
