"""Writes models of the SDK from the contract's classes.

A model has the fields of a class of answers, as a client needs them: an array is a tuple, a value
of a few words is a string, so that a word of a later server is no error, and a field that may be
missing or null is None. A class of requests has the types and defaults of the contract, and what
callers give by keyword is a TypedDict. Modules that are not in MODULES are still written by hand.
"""

from __future__ import annotations

import re
import textwrap
from typing import Any, NamedTuple, get_args, get_type_hints

import msgspec
from msgspec import NODEFAULT, UNSET

from openapi import access, common, locks, schemas, tenants, topics
from openapi.contract import Answer, Body, OpenAnswer
from openapi.json_schema import one_line, prose
from openapi.sdk.types import answer_type, argument_type, may_be_missing, model_name

WIDTH = 100


class Model(NamedTuple):
    """One model, made of a class of the contract."""

    kind: type[msgspec.Struct]
    etag: bool = False
    """Whether the model keeps the ETag of its answer, which a listing does not have."""
    defaults: dict[str, object] = {}
    """Defaults of fields that older servers do not send, or that only some answers have."""
    always: tuple[str, ...] = ()
    """Fields that every answer has, although a request may leave them out."""
    doc: str = ""
    """The docstring, if the class of the contract has none."""


class Keywords(NamedTuple):
    """A TypedDict of the fields of a request that callers give by keyword."""

    name: str
    kind: type[msgspec.Struct]
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


MODULES = {
    "filters": Module(
        "Previews of filters.",
        (
            Model(common.FilterSample, doc="A message that a filter was tried on."),
            Model(common.FilterPreviewSamples, doc="Some messages that match, and some others."),
            Model(common.FilterChanges, defaults={"newly_matched": 0, "no_longer_matched": 0}),
            Model(common.FilterPreview, doc="The effect of a filter on recent messages."),
        ),
    ),
    "topics": Module(
        "Topics, and the places of their partitions.",
        (
            Model(topics.Retention),
            Keywords(
                "TopicChanges",
                topics.TopicPut,
                "Fields of a topic that may be changed; the others stay.",
                without=topics.TopicPut.FIXED,
            ),
            Keywords(
                "TopicSettings",
                topics.TopicCreate,
                "Fields of a new topic; the others get the server's defaults.",
                only=("partitions", "priorities"),
                base="TopicChanges",
            ),
            Model(
                topics.Topic,
                etag=True,
                always=topics.TopicPut.FIXED,
                defaults={
                    "dedup_window_seconds": 600,
                    "priorities": 1,
                    "ack_history": False,
                },
            ),
            Model(common.Hold),
            Model(
                topics.PartitionGeneration,
                doc="A stretch of a partition that one group of store nodes holds.",
            ),
            Model(topics.Placement, doc="A move or growth that is not finished."),
            Model(topics.Partitions, doc="The places of a topic's partitions."),
        ),
    ),
    "tenancy": Module(
        "Tenants, and who may do what in them.",
        (
            Model(tenants.FirstOwner, doc="The client to create with a tenant, as its owner."),
            Keywords(
                "TenantSettings",
                tenants.TenantBody,
                "Fields of a tenant; the others get the server's defaults.",
                without=("name",),
            ),
            Model(tenants.FirstOwnerMade, doc="The first client of a tenant."),
            Model(
                tenants.TenantMade,
                etag=True,
                defaults={"token_audience": None},
                doc="A tenant: one of many that share the installation without seeing each other.",
            ),
            Model(access.SecretShown, doc="A secret, by its first characters."),
            Keywords(
                "ClientSettings",
                access.ClientBody,
                "Fields of a client; the others get the server's defaults.",
                without=("name",),
            ),
            Model(
                access.ClientMade,
                etag=True,
                defaults={"client_secret": None},
                doc="A program that gets access tokens with a secret.",
            ),
            Keywords(
                "KeySettings",
                access.KeyBody,
                "Fields of an API key beside its scopes.",
                without=("name", "scopes"),
            ),
            Model(access.KeyMade, etag=True, defaults={"key": None}, doc="An API key."),
            Model(
                access.Policy,
                etag=True,
                defaults={"resources": ("*",)},
                doc="A role, with its members and the resources that it is for.",
            ),
            Keywords(
                "IssuerSettings",
                access.IssuerBody,
                "Fields of an issuer beside its address and audience.",
                without=("name", "issuer", "audience"),
                types={"algorithms": "Sequence[str]"},
            ),
            Model(
                access.Issuer,
                etag=True,
                defaults={"subject_claim": "sub", "trust": None},
                doc="Another issuer, whose tokens the tenant trusts.",
            ),
        ),
        {"Role": access.Role},
    ),
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


HOMES = {
    "collections.abc": ("Mapping", "Sequence"),
    "datetime": ("datetime",),
    "typing": ("Any", "Literal", "TypedDict"),
}


def written(name: str) -> str:
    """Return the text of a module of models."""
    module = MODULES[name]
    aliases = [_alias(alias, kind) for alias, kind in module.aliases.items()]
    models = [
        model_text(each) if isinstance(each, Model) else keywords_text(each)
        for each in module.models
    ]
    body = "\n\n\n".join(("\n".join(aliases), *models) if aliases else models)
    used = _words(re.sub(r'"""(?s:.*?)"""', "", body))
    imports = [
        f"from {home} import {', '.join(names)}"
        for home, known in HOMES.items()
        if (names := [each for each in known if each in used])
    ]
    head = [
        "# Generated from openapi/: `make generate`. Do not edit.",
        f'"""{module.summary}"""',
        "",
        "from __future__ import annotations",
        "",
        *imports,
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
    sentences = _sentences(model.kind)
    sent = issubclass(model.kind, Body) and not issubclass(model.kind, (Answer, OpenAnswer))
    required: list[str] = []
    optional: list[str] = []
    for field in msgspec.structs.fields(model.kind):
        kind = argument_type(hints[field.name]) if sent else answer_type(hints[field.name])
        if field.name in model.always:
            kind = kind.removesuffix(" | None")
        default = _sent_default(field) if sent else _default(model, field.name, kind)
        if default == "None" and not may_be_missing(kind):
            kind = f"{kind} | None"
        entry = [f"    {field.name}: {kind}" + ("" if default is None else f" = {default}")]
        if field.name in sentences:
            entry.append(_docstring(sentences[field.name]))
        (required if default is None else optional).append("\n".join(entry))
    if model.etag:
        optional.append('    etag: str | None = None\n    """For `if_match`; None in a listing."""')
    doc = _docstring(model.doc or one_line(model.kind.__doc__ or ""))
    head = f"class {model_name(model.kind)}(msgspec.Struct, frozen=True):\n{doc}\n\n"
    return head + "\n".join((*required, *optional))


def keywords_text(keywords: Keywords) -> str:
    """Return the text of one TypedDict."""
    hints = get_type_hints(keywords.kind, include_extras=True)
    sentences = _sentences(keywords.kind)
    lines = []
    for field in msgspec.structs.fields(keywords.kind):
        name = field.name
        if name in keywords.without or (keywords.only and name not in keywords.only):
            continue
        kind = keywords.types.get(name) or argument_type(hints[name], required=True)
        lines.append(f"    {name}: {kind}")
        if name in sentences:
            lines.append(_docstring(sentences[name]))
    head = f"class {keywords.name}({keywords.base or 'TypedDict'}, total=False):"
    return "\n".join((head, _docstring(keywords.doc), "", *lines))


def _sentences(kind: type) -> dict[str, str]:
    """Return the descriptions of fields, in which null is None."""
    found = prose(kind).items()
    return {
        name: re.sub(r"\bnull\b", "None", re.sub(r"\bNull\b", "None", text)) for name, text in found
    }


def _sent_default(field: msgspec.structs.FieldInfo) -> str | None:
    """Return the default of a field of a request, as text."""
    if field.default_factory is not NODEFAULT:
        return repr(field.default_factory())
    if field.default is NODEFAULT:
        return None
    return "None" if field.default in (None, UNSET) else _quoted(field.default)


def _quoted(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _default(model: Model, field: str, kind: str) -> str | None:
    """Return the default as text; None where the field is always there."""
    if field in model.defaults:
        value = model.defaults[field]
        return '("*",)' if value == ("*",) else _quoted(value)
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
