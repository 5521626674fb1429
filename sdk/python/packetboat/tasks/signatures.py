"""The types of a handler's argument and result, as its annotations name them."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, get_args, get_origin, get_type_hints

_STREAMS = (AsyncIterable, AsyncIterator, Iterable, Iterator)


@dataclass(frozen=True, slots=True)
class Signature:
    """Without an annotation anything fits."""

    argument: Any
    returned: Any
    takes_context: bool

    @property
    def element(self) -> Any:
        """The type of the elements of an argument that is an iterator."""
        if get_origin(self.argument) in _STREAMS:
            return get_args(self.argument)[0]
        return Any


def is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function)


def check(function: Callable[..., Any]) -> None:
    """Check a task's function at the decorator, where the mistake is."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{function.__qualname__} yields; a task returns its one output")
    if not _positional(function):
        raise TypeError(f"{function.__qualname__} takes no argument, and a task has an input")


def signature_of(function: Callable[..., Any], arguments: int = 1) -> Signature:
    """Read when first needed: annotations may name what the module defines further down."""
    try:
        hints = get_type_hints(function)
    except NameError as error:
        raise TypeError(f"the annotations of {function.__qualname__}: {error}") from error
    names = _positional(function)
    return Signature(
        argument=hints.get(names[0], Any),
        returned=hints.get("return", Any),
        takes_context=len(names) > arguments,
    )


def _positional(function: Callable[..., Any]) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [each.name for each in parameters if each.kind in kinds]
