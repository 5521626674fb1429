"""Writes models of the SDK from the contract's classes.

A model has the fields of a class of answers, as a client needs them: an array is a tuple, a value
of a few words is a string, so that a word of a later server is no error, and a field that may be
missing or null is None. A class of requests has the types and defaults of the contract, and what
callers give by keyword is a TypedDict. `openapi.sdk.modules` says which models there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, UNSET

from openapi.contract import Answer, Body, OpenAnswer, Parameter
from openapi.json_schema import one_line, prose
from openapi.sdk.text import docstring, put_together, words
from openapi.sdk.types import TIMES, answer_type, argument_type, may_be_missing, model_name


class Model(NamedTuple):
    """One model, made of a class of the contract."""

    kind: type[msgspec.Struct]
    etag: bool = False
    """Whether the model keeps the ETag of its answer, which a listing does not have."""
    defaults: dict[str, object] = {}
    """Defaults of fields that older servers do not send, or that only some answers have. A class
    stands for an object with its own defaults."""
    defaults_of: type[msgspec.Struct] | None = None
    """The class of requests whose defaults are those of the model, too."""
    always: tuple[str, ...] = ()
    """Fields that every answer has: they have no default."""
    doc: str = ""
    """The docstring, if the class of the contract has none."""
    types: dict[str, str] = {}
    """Types that do not follow from the contract."""
    without: tuple[str, ...] = ()
    """Fields that the model does not have."""
    names: dict[str, str] = {}
    """Names of fields that differ from those of the contract."""
    texts: dict[str, str] = {}
    """Descriptions of fields for which the SDK does more than the API."""
    base: Model | None = None
    """The model that this one adds fields to."""
    methods: str = ""
    """The class of `packetboat.models.data` with the methods of the model."""
    options: str = ""
    """Options of the class, as text."""


class Keywords(NamedTuple):
    """A TypedDict of what callers give by keyword: fields of a body, or parameters of a query."""

    name: str
    kind: type[msgspec.Struct] | tuple[Parameter, ...]
    doc: str
    without: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    base: str = ""
    """The TypedDict that it adds fields to."""
    types: dict[str, str] = {}
    """Types that do not follow from the contract."""


class Module(NamedTuple):
    """One module of `packetboat.models`."""

    summary: str
    models: tuple[Model | Keywords, ...]
    aliases: dict[str, Any] = {}


def written(module: Module, homes: Mapping[str, str]) -> str:
    """Return the text of a module; `homes` has the module of each name that it may import."""
    aliases = [_alias(alias, kind) for alias, kind in module.aliases.items()]
    models = [
        model_text(each) if isinstance(each, Model) else keywords_text(each)
        for each in module.models
    ]
    body = "\n\n\n".join(("\n".join(aliases), *models) if aliases else models)
    imports = [
        f"from packetboat.models.{homes[name]} import {name}"
        for name in sorted(words(body) - defined(module))
        if name in homes
    ]
    return put_together(module.summary, imports, body)


def defined(module: Module) -> set[str]:
    """Return the names that a module defines."""
    classes = (
        model_name(each.kind) if isinstance(each, Model) else each.name for each in module.models
    )
    return {*module.aliases, *classes}


def _alias(name: str, kind: Any) -> str:
    literal, *notes = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    words = ", ".join(f'"{each}"' for each in get_args(literal))
    about = [f'"""{note.description}"""' for note in notes if note.description]
    return "\n".join([f"{name} = Literal[{words}]", *about])


def model_text(model: Model) -> str:
    """Return the text of one class."""
    sentences = _sentences(model.kind)
    required: list[str] = []
    optional: list[str] = []
    for sent, kind, default in _fields(model):
        name = model.names.get(sent, sent)
        if name != sent:
            default = f'msgspec.field(name="{sent}")'
        entry = [f"    {name}: {kind}" + ("" if default is None else f" = {default}")]
        if sentence := model.texts.get(sent) or sentences.get(sent):
            entry.append(docstring(sentence))
        (required if default is None or name != sent else optional).append("\n".join(entry))
    if model.etag:
        optional.append('    etag: str | None = None\n    """For `if_match`; None in a listing."""')
    doc = docstring(model.doc or _in_python(one_line(model.kind.__doc__ or "")))
    base = model_name(model.base.kind) if model.base else "msgspec.Struct"
    bases = ", ".join(filter(None, (model.methods, base, "frozen=True", model.options)))
    head = f"class {model_name(model.kind)}({bases}):\n{doc}\n\n"
    return head + "\n".join((*required, *optional))


def _fields(model: Model) -> Iterator[tuple[str, str, str | None]]:
    """Yield the name, the type and the default of each field; without a default it is None."""
    hints = get_type_hints(model.kind, include_extras=True)
    sent = _is_sent(model.kind)
    inherited = [name for name, _, _ in _fields(model.base)] if model.base else []
    for field in msgspec.structs.fields(model.kind):
        if field.name in (*inherited, *model.without):
            continue
        there = field.name in model.always or _default(model, field, "") not in (None, "None")
        write = argument_type if sent else answer_type
        kind = model.types.get(field.name) or write(hints[field.name], required=there)
        default = _default(model, field, kind)
        if default == "None" and not may_be_missing(kind):
            kind = f"{kind} | None"
        yield field.name, kind, default


def keywords_text(keywords: Keywords) -> str:
    """Return the text of one TypedDict."""
    lines = []
    for name, kind, sentence in _entries(keywords):
        if name in keywords.without or (keywords.only and name not in keywords.only):
            continue
        lines.append(f"    {name}: {keywords.types.get(name) or kind}")
        if sentence:
            lines.append(docstring(sentence))
    head = f"class {keywords.name}({keywords.base or 'TypedDict'}, total=False):"
    return "\n".join((head, docstring(keywords.doc), "", *lines))


def _entries(keywords: Keywords) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the type and the description of what may be given."""
    if isinstance(keywords.kind, tuple):
        for each in keywords.kind:
            name = TIMES.get(each.name, each.name) if each.kind is datetime else each.name
            yield name, argument_type(each.kind, required=True), each.description
        return
    hints = get_type_hints(keywords.kind, include_extras=True)
    sentences = _sentences(keywords.kind)
    for field in msgspec.structs.fields(keywords.kind):
        kind = argument_type(hints[field.name], required=True)
        yield field.name, kind, sentences.get(field.name, "")


def _sentences(kind: type) -> dict[str, str]:
    """Return the descriptions of fields, in which null is None."""
    return {name: _in_python(text) for name, text in prose(kind).items()}


def _in_python(text: str) -> str:
    return re.sub(r"\b[Nn]ull\b", "None", text)


def _sent_default(field: msgspec.structs.FieldInfo) -> str | None:
    """Return the default of a field of a request, as text."""
    if field.default_factory is not NODEFAULT:
        return repr(field.default_factory())
    if field.default is NODEFAULT:
        return None
    return "None" if field.default in (None, UNSET) else _quoted(field.default)


def _quoted(value: Any) -> str:
    if isinstance(value, type):
        return f"{model_name(value)}()"
    if isinstance(value, msgspec.Raw):
        return f"msgspec.Raw({bytes(value)!r})"
    if value is UNSET:
        return "msgspec.UNSET"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _default(model: Model, field: msgspec.structs.FieldInfo, kind: str) -> str | None:
    """Return the default as text; None where the field has none."""
    if field.name in model.defaults:
        return _quoted(model.defaults[field.name])
    if field.name in model.always:
        return None
    if _is_sent(model.kind):
        return _sent_default(field)
    if model.defaults_of and field.name in model.defaults_of.__struct_fields__:
        fields = msgspec.structs.fields(model.defaults_of)
        return _sent_default(next(each for each in fields if each.name == field.name))
    if kind.endswith("| None"):
        return "None"
    if kind.startswith("tuple["):
        return "()"
    return "{}" if kind.startswith("dict[") else None


def _is_sent(kind: type[msgspec.Struct]) -> bool:
    """Return whether a class is one of requests alone."""
    return issubclass(kind, Body) and not issubclass(kind, (Answer, OpenAnswer))
