"""Reads settings from the environment and reports all wrong ones together.

A settings class declares the bounds of each number (`number`). A program that starts processes
reads every class first, and prints a line for each wrong variable before anything starts.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import Field, field, fields
from typing import Any, NamedTuple, TypeVar

S = TypeVar("S")
T = TypeVar("T")
N = TypeVar("N", int, float)


class SettingsError(ValueError):
    """Variables of the environment are wrong; the text has a line for each, which names it."""

    def __init__(self, *faults: str) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


class Bounds(NamedTuple):
    """The values that a number may have, both ends included; more than `above`. Never infinite."""

    least: float = -math.inf
    most: float = sys.float_info.max
    above: float = -math.inf

    def fault(self, value: float) -> str | None:
        """Return why a value is out of bounds, or None."""
        if self.least <= value <= self.most and value > self.above:
            return None
        if self.above > -math.inf:
            return f"must be above {self.above:g}"
        if self.most == sys.float_info.max:
            return f"must be at least {_plain(self.least)}"
        return f"must be from {_plain(self.least)} to {_plain(self.most)}"


ANY = Bounds()
POSITIVE = Bounds(above=0)
PORT = Bounds(0, 65_535)
BOUNDS = "bounds"


def number(
    default: N,
    least: float = -math.inf,
    most: float = sys.float_info.max,
    *,
    above: float = -math.inf,
) -> N:
    """Declare a field of a settings class that is a number within bounds."""
    return field(default=default, metadata={BOUNDS: Bounds(least, most, above)})


class Asked(Mapping[str, str]):
    """An environment that remembers which variables were read."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.names.add(name)
        return self._variables[name]

    def __contains__(self, name: object) -> bool:
        self.names.add(str(name))
        return name in self._variables

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables)

    def __len__(self) -> int:
        return len(self._variables)


class Reader:
    """Reads variables one by one and collects their faults."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.faults: list[str] = []

    def read(
        self, variable: str, parse: Callable[[str], T], default: T, *, secret: bool = False
    ) -> T:
        """Return the parsed value, or the default if the variable is not set or wrong."""
        text = self._environment.get(variable)
        if text is None:
            return default
        try:
            return parse(text)
        except ValueError as error:
            self.faults.append(f"{shown(variable, text, secret=secret)}: {error}")
            return default

    def need(self, variable: str, parse: Callable[[str], T], default: T, form: str) -> T:
        """Read a variable that must be set; `form` says to what."""
        if variable not in self._environment:
            self.faults.append(f"{variable} is needed: {form}")
            return default
        return self.read(variable, parse, default)

    def number(self, variable: str, default: N, bounds: Bounds = ANY) -> N:
        kind = type(default)
        return self.read(variable, lambda text: within(kind, bounds, text), default)

    def done(self) -> None:
        """Raises SettingsError if any variable was wrong."""
        if self.faults:
            raise SettingsError(*self.faults)


def within(kind: type[N], bounds: Bounds, text: str) -> N:
    """Return the number that a text says; raises ValueError with the values that are allowed."""
    try:
        value = kind(text)
    except ValueError:
        raise ValueError("not a whole number" if kind is int else "not a number") from None
    if (fault := bounds.fault(value)) is not None:
        raise ValueError(fault)
    return value


def boolean(text: str) -> bool:
    """Return the boolean that a text says; raises ValueError with the values that are allowed."""
    values = {"1": True, "true": True, "0": False, "false": False}
    if text.lower() not in values:
        raise ValueError("1 or 0, true or false")
    return values[text.lower()]


def bounds_of(setting: Field[Any]) -> Bounds:
    """Return the bounds that a settings class declares for a field."""
    bounds: Bounds = setting.metadata.get(BOUNDS, ANY)
    return bounds


def shown(variable: str, text: str, *, secret: bool = False) -> str:
    """Return a variable with its value, or without it if it is a secret."""
    return variable if secret else f"{variable}={text!r}"


def all_faults(reads: Iterable[Callable[[], object]]) -> list[str]:
    """Return the faults of several settings classes, each once."""
    faults: list[str] = []
    for read in reads:
        try:
            read()
        except SettingsError as error:
            faults += error.faults
        except ValueError as error:
            faults.append(str(error))
    return list(dict.fromkeys(faults))


def positive_numbers(settings: type[S], prefix: str, environment: Mapping[str, str]) -> S:
    """Return a dataclass of positive numbers with the values that the environment overrides.

    Raises SettingsError.
    """
    reader = Reader(environment)
    given = numbers(reader, settings, prefix, POSITIVE)
    reader.done()
    return settings(**given)


def numbers(
    reader: Reader, settings: Any, prefix: str, bounds: Bounds | None = None
) -> dict[str, Any]:
    """Read every field of a dataclass that has a number by default, within `bounds` or its own."""
    return {
        each.name: reader.number(
            prefix + each.name.upper(), each.default, bounds or bounds_of(each)
        )
        for each in fields(settings)
        if isinstance(each.default, int | float)
    }


def _plain(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:g}"
