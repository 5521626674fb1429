"""How settings are read from the environment: each one once, and all that does not fit at once.

A settings class says of each number what it may be (`number`). Whoever starts processes asks every
class, and tells people a line for each variable that does not fit before anything starts.
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
    """Variables of the environment do not fit: a line of text each, which names the variable."""

    def __init__(self, *faults: str) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


class Bounds(NamedTuple):
    """What a number may be, both ends included; `above`: more than that. Never infinite."""

    least: float = -math.inf
    most: float = sys.float_info.max
    above: float = -math.inf

    def fault(self, value: float) -> str | None:
        """None where it fits."""
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
    """A field of a settings class that is a number within bounds."""
    return field(default=default, metadata={BOUNDS: Bounds(least, most, above)})


class Asked(Mapping[str, str]):
    """An environment that remembers which variables it was asked for: those somebody reads."""

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
    """Reads variables one by one and collects what does not fit."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.faults: list[str] = []

    def read(
        self, variable: str, parse: Callable[[str], T], default: T, *, secret: bool = False
    ) -> T:
        """The default where it is not set, or does not fit."""
        text = self._environment.get(variable)
        if text is None:
            return default
        try:
            return parse(text)
        except ValueError as error:
            self.faults.append(f"{shown(variable, text, secret=secret)}: {error}")
            return default

    def need(self, variable: str, parse: Callable[[str], T], default: T, form: str) -> T:
        """As `read`, of a variable that must be set; `form` says what to."""
        if variable not in self._environment:
            self.faults.append(f"{variable} is needed: {form}")
            return default
        return self.read(variable, parse, default)

    def number(self, variable: str, default: N, bounds: Bounds = ANY) -> N:
        kind = type(default)
        return self.read(variable, lambda text: within(kind, bounds, text), default)

    def done(self) -> None:
        """Raises SettingsError if anything did not fit."""
        if self.faults:
            raise SettingsError(*self.faults)


def within(kind: type[N], bounds: Bounds, text: str) -> N:
    """The number; raises ValueError, which says what it may be."""
    try:
        value = kind(text)
    except ValueError:
        raise ValueError("not a whole number" if kind is int else "not a number") from None
    if (fault := bounds.fault(value)) is not None:
        raise ValueError(fault)
    return value


def boolean(text: str) -> bool:
    """Raises ValueError, which says what it may be."""
    values = {"1": True, "true": True, "0": False, "false": False}
    if text.lower() not in values:
        raise ValueError("1 or 0, true or false")
    return values[text.lower()]


def bounds_of(setting: Field[Any]) -> Bounds:
    """As the settings class says."""
    bounds: Bounds = setting.metadata.get(BOUNDS, ANY)
    return bounds


def shown(variable: str, text: str, *, secret: bool = False) -> str:
    """A variable and what it is set to; a secret's value is never shown."""
    return variable if secret else f"{variable}={text!r}"


def all_faults(reads: Iterable[Callable[[], object]]) -> list[str]:
    """What does not fit of several settings classes together."""
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
    """A dataclass whose fields are all positive numbers, with what the environment overrides;
    raises SettingsError."""
    reader = Reader(environment)
    given = numbers(reader, settings, prefix, POSITIVE)
    reader.done()
    return settings(**given)


def numbers(
    reader: Reader, settings: Any, prefix: str, bounds: Bounds | None = None
) -> dict[str, Any]:
    """Every field of a dataclass that has a number by default, as the environment says, within
    `bounds` or its own."""
    return {
        each.name: reader.number(
            prefix + each.name.upper(), each.default, bounds or bounds_of(each)
        )
        for each in fields(settings)
        if isinstance(each.default, int | float)
    }


def _plain(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:g}"
