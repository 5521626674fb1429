"""`python -m tests.tidy.sdk_surface --write` records what users of the SDK call and read.

A line is a function or method with its parameters, or a field of a class with its type and default.
`undocumented` stands behind a function or class without a docstring. So a change that users notice
shows in the diff of sdk_signatures.txt, and one that was not meant fails a test.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

RECORD = Path(__file__).with_name("sdk_signatures.txt")
SHOWN = ("", ".lake", ".models", ".tasks", ".webhooks", ".worker")
"""The packages that programs import from."""
CLIENTS = ("aio", "sync")
"""The packages whose classes clients hand out."""
_ADDRESS = re.compile(" at 0x[0-9a-f]+")


def exported() -> Iterator[tuple[str, Any]]:
    """Yield each name in `__all__` of a package that programs import from."""
    for suffix in SHOWN:
        module = import_module(f"packetboat{suffix}")
        yield from ((f"{module.__name__}.{name}", getattr(module, name)) for name in module.__all__)


def given_by_clients() -> Iterator[tuple[str, type]]:
    """Yield the classes that nobody imports and everybody calls: areas, handles, deliveries.

    Classes in `operations` are the bases of areas, which show the same methods.
    """
    for side in CLIENTS:
        package = import_module(f"packetboat.{side}")
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if ".operations" in found.name:
                continue
            module = import_module(found.name)
            for name, thing in inspect.getmembers(module, inspect.isclass):
                if thing.__module__ == found.name and not name.startswith("_"):
                    yield f"{found.name}.{name}", thing


def surface() -> str:
    """Return the record of the SDK as it is now."""
    lines: list[str] = []
    for name, thing in sorted(dict([*exported(), *given_by_clients()]).items()):
        lines += _described(name, thing)
    return _ADDRESS.sub("", "\n".join(lines)) + "\n"


def _described(name: str, thing: Any) -> Iterator[str]:
    if not inspect.isclass(thing):
        yield f"{name}{_signature(thing)}" if inspect.isroutine(thing) else f"{name} = {thing}"
        return
    yield f"{name}{_mark(thing)}"
    yield from _fields(name, thing)
    for member, value in sorted(inspect.getmembers(thing)):
        if not member.startswith("_") or member == "__init__":
            yield from _member(f"{name}.{member}", value)


def _fields(name: str, thing: type) -> Iterator[str]:
    defaults: dict[str, Any] = {}
    if issubclass(thing, msgspec.Struct):
        fields = msgspec.structs.fields(thing)
        defaults = {each.name: _default(each) for each in fields if not each.required}
    for each in thing.__mro__[::-1]:
        if not each.__module__.startswith("packetboat"):
            continue
        for field, kind in inspect.get_annotations(each).items():
            if not field.startswith("_"):
                default = f" = {defaults[field]!r}" if field in defaults else ""
                yield f"{name}.{field}: {_type(kind)}{default}"


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def _member(name: str, value: Any) -> Iterator[str]:
    code = getattr(value, "func" if isinstance(value, cached_property) else "fget", value)
    if not (getattr(code, "__module__", None) or "").startswith("packetboat"):
        return
    if isinstance(value, property | cached_property):
        yield f"{name} -> {inspect.signature(code).return_annotation}{_mark(value)}"
    elif inspect.isroutine(value):
        yield f"{name}{_signature(value)}"


def _signature(function: Any) -> str:
    kind = "async " if inspect.iscoroutinefunction(function) else ""
    mark = "" if function.__name__ == "__init__" else _mark(function)
    return f": {kind}{_in_order(inspect.signature(function))}{mark}"


def _in_order(signature: inspect.Signature) -> inspect.Signature:
    """Return the signature with keyword-only parameters by name: callers see no order of theirs."""
    positional, named, rest = [], [], []
    for each in signature.parameters.values():
        kinds = {each.KEYWORD_ONLY: named, each.VAR_KEYWORD: rest}
        kinds.get(each.kind, positional).append(each)
    named.sort(key=lambda each: each.name)
    return signature.replace(parameters=[*positional, *named, *rest])


def _mark(thing: Any) -> str:
    return "" if inspect.getdoc(thing) else " undocumented"


def _type(kind: Any) -> str:
    return str(getattr(kind, "__forward_arg__", kind))


def main() -> None:
    now = surface()
    if sys.argv[1:] == ["--write"]:
        RECORD.write_text(now, encoding="utf-8")
    elif RECORD.read_text(encoding="utf-8") != now:
        sys.exit("the SDK is not as recorded: run `python -m tests.tidy.sdk_surface --write`")


if __name__ == "__main__":
    main()
