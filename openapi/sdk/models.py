"""Writes models of the SDK from the contract's classes.

A model has the fields of a class of answers, as a client needs them: an array is a tuple, a value
of a few words is a string, so that a word of a later server is no error, and a field that may be
missing or null is None. The SDK is a distribution of its own and imports nothing of this package;
so its models are text. Modules that are not in MODULES are still written by hand.
"""

from __future__ import annotations

import textwrap
import types
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UnsetType

from openapi import locks, schemas
from openapi.json_schema import one_line, prose

WIDTH = 100


class Model(NamedTuple):
    """One model, made of a class of the contract."""

    kind: type[msgspec.Struct]
    etag: bool = False
    """Whether the model keeps the ETag of its answer, which a listing does not have."""
    defaults: dict[str, object] = {}
    """Defaults of fields that older servers do not send."""


class Module(NamedTuple):
    """One module of `packetboat.models`."""

    summary: str
    models: tuple[Model, ...]
    aliases: dict[str, Any] = {}


MODULES = {
    "locks": Module(
        "Locks, as their holder and as others see them.",
        (
            Model(locks.Lock),
            Model(locks.LockState, defaults={"waiting": 0}),
            Model(locks.LockVerified),
        ),
    ),
    "schemas": Module(
        "Schemas that message bodies must fit.",
        (
            Model(schemas.SchemaError),
            Model(schemas.Schema, etag=True),
            Model(schemas.SchemaVersion, defaults={"definition": None}),
            Model(schemas.SchemaChecked),
            Model(schemas.SchemaValidated),
            Model(schemas.SchemaSample),
            Model(schemas.SchemaPreviewed),
        ),
        {"SchemaType": schemas.Type, "Compatibility": schemas.Compatibility},
    ),
}


def written(name: str) -> str:
    """Return the text of a module of models."""
    module = MODULES[name]
    aliases = [_alias(alias, kind) for alias, kind in module.aliases.items()]
    models = [model_text(each) for each in module.models]
    body = "\n\n\n".join(("\n".join(aliases), *models) if aliases else models)
    names = [each for each in ("Any", "Literal") if each in _words(body)]
    head = [
        f"# Generated from openapi/{name}.py: `make generate`. Do not edit.",
        f'"""{module.summary}"""',
        "",
        "from __future__ import annotations",
        "",
        *(["from datetime import datetime"] if "datetime" in _words(body) else []),
        *([f"from typing import {', '.join(names)}"] if names else []),
    ]
    if head[-1]:
        head.append("")
    gap = "\n\n" if aliases else "\n\n\n"
    return "\n".join((*head, "import msgspec")) + gap + body + "\n"


def _words(text: str) -> set[str]:
    return set("".join(each if each.isalnum() else " " for each in text).split())


def _alias(name: str, kind: Any) -> str:
    words = ", ".join(f'"{each}"' for each in get_args(kind))
    return f"{name} = Literal[{words}]"


def model_text(model: Model) -> str:
    """Return the text of one class."""
    hints = get_type_hints(model.kind, include_extras=True)
    sentences = prose(model.kind)
    required: list[str] = []
    optional: list[str] = []
    for field in msgspec.structs.fields(model.kind):
        kind = _type(hints[field.name])
        default = _default(model, field.name, kind)
        entry = [f"    {field.name}: {kind}" + ("" if default is None else f" = {default}")]
        if field.name in sentences:
            entry.append(_docstring(sentences[field.name]))
        (required if default is None else optional).append("\n".join(entry))
    if model.etag:
        optional.append('    etag: str | None = None\n    """For `if_match`; None in a listing."""')
    doc = _docstring(one_line(model.kind.__doc__ or ""))
    head = f"class {model.kind.__name__}(msgspec.Struct, frozen=True):\n{doc}\n\n"
    return head + "\n".join((*required, *optional))


def _type(kind: Any) -> str:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _type(arguments[0])
    if origin is Literal:
        return type(arguments[0]).__name__
    if origin in (list, tuple):
        return f"tuple[{_type(arguments[0])}, ...]"
    if origin is dict:
        return f"dict[{', '.join(map(_type, arguments))}]"
    if origin in (Union, types.UnionType):
        return _union(arguments)
    names: dict[Any, str] = {Any: "Any", datetime: "datetime"}
    return names.get(kind) or str(kind.__name__)


def _union(arguments: Iterable[Any]) -> str:
    nothing = (type(None), UnsetType)
    some = [_type(each) for each in arguments if each not in nothing]
    missing = len(some) < len(tuple(arguments))
    return " | ".join(dict.fromkeys(some)) + (" | None" if missing else "")


def _default(model: Model, field: str, kind: str) -> str | None:
    """Return the default as text; None where the field is always there."""
    if field in model.defaults:
        return repr(model.defaults[field])
    if kind.endswith("| None"):
        return "None"
    if kind.startswith("tuple["):
        return "()"
    return "{}" if kind.startswith("dict[") else None


def _docstring(text: str) -> str:
    one = f'    """{text}"""'
    if len(one) <= WIDTH:
        return one
    return "\n".join(
        textwrap.wrap(f'"""{text}"""', WIDTH, initial_indent="    ", subsequent_indent="    ")
    )
