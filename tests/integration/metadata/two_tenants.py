"""Every repository method that names a tenant, called with whatever its parameters ask for."""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import importlib
import inspect
import pkgutil
import types
import typing
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

import metadata
from metadata.database import Database

NAME = "same"
"""The name of everything that both tenants own."""
MARK = "of the first tenant"
CACHES = {"Catalog", "SchemaCatalog"}
"""Classes that only ask repositories, and need a feed."""
MIGRATIONS = "metadata.migrations."
"""Only Alembic imports those."""


class Method(NamedTuple):
    """One that takes `tenant_id` first."""

    repository: type[Any]
    name: str

    @property
    def label(self) -> str:
        return f"{self.repository.__name__}.{self.name}"

    def hints(self) -> dict[str, Any]:
        """Return the types of the parameters that a call needs beside the tenant."""
        function = getattr(self.repository, self.name)
        known = typing.get_type_hints(function)
        return {
            name: known[name]
            for name, parameter in inspect.signature(function).parameters.items()
            if name not in ("self", "tenant_id") and parameter.default is parameter.empty
        }

    def bind(self, database: Database) -> Callable[..., Awaitable[Any]]:
        bound: Callable[..., Awaitable[Any]] = getattr(self.repository(database), self.name)
        return bound


def methods() -> list[Method]:
    """Return all methods, sorted by name."""
    return sorted(
        (
            Method(repository, name)
            for repository in _repositories()
            for name, function in vars(repository).items()
            if not name.startswith("_")
            and inspect.iscoroutinefunction(function)
            and "tenant_id" in inspect.signature(function).parameters
        ),
        key=lambda method: method.label,
    )


def _repositories() -> Iterator[type[Any]]:
    for module in pkgutil.walk_packages(metadata.__path__, "metadata."):
        if module.ispkg or module.name.startswith(MIGRATIONS):
            continue
        for made in vars(importlib.import_module(module.name)).values():
            if not inspect.isclass(made) or made.__module__ != module.name:
                continue
            parameters = list(inspect.signature(made.__init__).parameters.values())[1:]
            needed = [each.name for each in parameters if each.default is each.empty]
            if needed == ["database"] and made.__name__ not in CACHES:
                yield made


class Arguments:
    """Values for parameters: of the first tenant's things wherever a thing is asked for."""

    def __init__(self, *, labels: dict[str, str], **named: Any) -> None:
        """`named` maps a parameter's or field's name to its value; all other values follow
        from types.
        """
        self._labels = labels
        self._named = named

    def of(self, method: Method, **named: Any) -> dict[str, Any]:
        return {
            name: named[name] if name in named else self._value(name, hint)
            for name, hint in method.hints().items()
        }

    def _value(self, name: str, hint: Any) -> Any:
        if name in self._named:
            return self._named[name]
        origin = typing.get_origin(hint)
        if origin in (typing.Union, types.UnionType):
            return None if type(None) in typing.get_args(hint) else self._first(name, hint)
        if origin is typing.Annotated or origin is typing.Literal:
            return self._first(name, hint)
        if origin is collections.abc.Callable:
            return _must_not_be_called
        if origin in (dict, collections.abc.Mapping):
            return dict(self._labels) if name == "labels" else {}
        if origin is not None and issubclass(origin, collections.abc.Iterable):
            return [NAME] if typing.get_args(hint)[:1] == (str,) else []
        return self._made(hint)

    def _first(self, name: str, hint: Any) -> Any:
        first = typing.get_args(hint)[0]
        return first if typing.get_origin(hint) is typing.Literal else self._value(name, first)

    def _made(self, kind: Any) -> Any:
        simple = {str: NAME, bytes: bytes(range(16)), int: 0, float: 1.0, bool: False}
        if kind in simple:
            return simple[kind]
        if kind is datetime:
            return datetime.now(UTC)
        if issubclass(kind, enum.Enum):
            return next(iter(kind))
        hints = typing.get_type_hints(kind)
        return kind(**{name: self._value(name, hints[name]) for name in _needed(kind)})


def _needed(kind: type[Any]) -> list[str]:
    """Return the names of fields without a default, and of the labels."""
    if dataclasses.is_dataclass(kind):
        return [
            field.name
            for field in dataclasses.fields(kind)
            if field.name == "labels"
            or (
                field.default is dataclasses.MISSING
                and field.default_factory is dataclasses.MISSING
            )
        ]
    if issubclass(kind, msgspec.Struct):
        return [
            field.name
            for field in msgspec.structs.fields(kind)
            if field.required or field.name == "labels"
        ]
    fields: tuple[str, ...] = kind._fields
    return [name for name in fields if name not in kind._field_defaults]


def _must_not_be_called(present: Any) -> Any:
    raise AssertionError(f"was shown {present}")
