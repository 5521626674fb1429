"""The types of the contract as the SDK writes them."""

from __future__ import annotations

import types
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import UnsetType

from openapi import access, schedules, schemas

MODELS: dict[str, str] = {
    "Client": "OAuthClient",
    "ClientMade": "OAuthClient",
    "KeyMade": "Key",
    "TenantMade": "Tenant",
    "FilterPreviewSamples": "FilterSamples",
    "SchemaVersionListed": "SchemaVersion",
    "FirstOwnerMade": "Owner",
    "LimitsBody": "Limits",
    "TopicRetention": "Retention",
    "ParkedKeyListed": "ParkedKey",
}
"""The names of models that differ from the classes of the contract."""
WORDS: dict[Any, str] = {
    schemas.Type: "SchemaType",
    schemas.Compatibility: "Compatibility",
    schedules.MissedRuns: "MissedRuns",
    access.Role: "Role",
}
"""The names of types that have a few words."""
NOTHING = (type(None), UnsetType)


def model_name(kind: type) -> str:
    """Return the name that a class of the contract has in the SDK."""
    return MODELS.get(kind.__name__, kind.__name__)


def argument_type(kind: Any, required: bool = False) -> str:
    """Return the type of an argument: an array is any sequence, and words are checked. One that is
    required is not left out."""
    origin, arguments = get_origin(kind), get_args(kind)
    if required and UnsetType in arguments:
        arguments = tuple(each for each in arguments if each is not UnsetType)
    if kind in WORDS:
        return WORDS[kind]
    if origin is Annotated:
        return argument_type(arguments[0])
    if origin is Literal:
        return f"Literal[{', '.join(map(quoted, arguments))}]"
    if origin in (list, tuple, set):
        return f"Sequence[{argument_type(arguments[0])}]"
    if origin is dict:
        return f"Mapping[{', '.join(map(argument_type, arguments))}]"
    if origin in (Union, types.UnionType):
        return union(arguments, argument_type)
    return plain(kind)


def answer_type(kind: Any) -> str:
    """Return the type of a field of a model: an array is a tuple, and a word is a string, so that
    a word of a later server is no error."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return answer_type(arguments[0])
    if origin is Literal:
        return type(arguments[0]).__name__
    if origin in (list, tuple):
        return f"tuple[{answer_type(arguments[0])}, ...]"
    if origin is dict:
        return f"dict[{', '.join(map(answer_type, arguments))}]"
    if origin in (Union, types.UnionType):
        return union(arguments, answer_type)
    return plain(kind)


def plain(kind: Any) -> str:
    """Return the name of a type that has no arguments."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return model_name(kind)
    names: dict[Any, str] = {Any: "Any", datetime: "datetime"}
    return names.get(kind) or str(kind.__name__)


def union(arguments: Iterable[Any], written: Any) -> str:
    """Return a union, in which a value that may be missing is None."""
    kinds = tuple(arguments)
    some = [written(each) for each in kinds if each not in NOTHING]
    missing = len(some) < len(kinds)
    if "Any" in some:
        return "Any"
    return " | ".join(dict.fromkeys(some)) + (" | None" if missing else "")


def may_be_missing(text: str) -> bool:
    """Return whether a type has None."""
    return text == "Any" or text.endswith("| None")


def quoted(word: object) -> str:
    return f'"{word}"' if isinstance(word, str) else repr(word)
