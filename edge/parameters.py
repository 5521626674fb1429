"""Values of query parameters, held to the types and limits of the contract.

A value that does not fit is refused with a 400 Problem that names the parameter and its rule.
"""

from __future__ import annotations

import re
from typing import Any, get_args

from msgspec import UNSET

from edge.problem import FieldError, Problem, invalid
from openapi.contract import Parameter

_WHOLE = re.compile(r"[0-9]{1,18}")


def integer_of(parameter: Parameter, text: str | None) -> int | None:
    """Return a whole number; the parameter's default if the query does not have it."""
    if text is None:
        default: int | None = _default(parameter)
        return default
    low, high = _limits(parameter)
    if _WHOLE.fullmatch(text) and low <= int(text) <= high:
        return int(text)
    raise refused(parameter, f"an integer from {low} to {high}")


def number_of(parameter: Parameter, text: str | None) -> float | None:
    """Return a number; the parameter's default if the query does not have it."""
    if text is None:
        default: float | None = _default(parameter)
        return default
    low, high = _limits(parameter)
    try:
        number = float(text)
    except ValueError:
        number = low - 1.0
    if not low <= number <= high:
        raise refused(parameter, f"a number from {low} to {high}")
    return number


def choice_of(parameter: Parameter, text: str | None) -> str | None:
    """Return one of the words that the contract names; the default if the query has none."""
    words = get_args(parameter.kind)
    if text is None:
        default: str | None = _default(parameter)
        return default
    if text not in words:
        raise refused(parameter, f"one of {', '.join(words)}")
    return text


def text_of(parameter: Parameter, text: str | None) -> str | None:
    """Return a text of the parameter's length or pattern; None if the query does not have it."""
    (limits,) = parameter.kind.__metadata__
    if text is None:
        return None
    if limits.pattern is not None and re.search(limits.pattern, text) is None:
        raise refused(parameter, f"must match the pattern {limits.pattern}")
    if limits.max_length is not None and (len(text) > limits.max_length or "\0" in text):
        raise refused(parameter, f"at most {limits.max_length} characters")
    return text


def refused(parameter: Parameter, rule: str) -> Problem:
    """Return the refusal of a value that does not fit."""
    text = f"The query parameter {parameter.name} does not fit."
    return invalid(text, [FieldError(parameter.name, rule)], status=400)


def _limits(parameter: Parameter) -> tuple[int, int]:
    (limits,) = parameter.kind.__metadata__
    return limits.ge, limits.le


def _default(parameter: Parameter) -> Any:
    return None if parameter.default is UNSET else parameter.default
