"""Error texts for bodies that cannot be decoded, in words of this project instead of the decoder's.

A reader gets the field, what it must be and the limit, in the terms of JSON. The texts of a library
change with its releases, and speak of its own types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from edge.problem import FieldError, Problem
from openapi.common import NO_CONTROL

_AT = re.compile(r" - at (?:`key` in )?`(?P<path>[^`]*)`$")
_EXPECTED = re.compile(r"Expected `(?P<wanted>[^`]*)`(?P<rest>.*)", re.DOTALL)
_GOT = re.compile(r", got `(?P<got>[^`]*)`$")
_LENGTH = re.compile(r" of length (?P<sign><=|>=|<|>|==|!=)?\s?(?P<limit>[0-9]+)")
_LIMIT = re.compile(r" (?P<sign><=|>=|<|>) (?P<limit>\S+)")
_PATTERN = re.compile(r" matching regex (?P<pattern>.*)", re.DOTALL)
_MULTIPLE = re.compile(r" that's a multiple of (?P<limit>\S+)")
_UNKNOWN = re.compile(r"unknown field `(?P<field>[^`]*)`")
_MISSING = re.compile(r"missing required field `(?P<field>[^`]*)`")
_VALUE = re.compile(r"Invalid (?:enum )?value (?P<value>.*)", re.DOTALL)
_BYTE = re.compile(r"\(byte (?P<at>[0-9]+)\)")
_NAMES = {
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "null": "null",
    "array": "an array",
    "object": "an object",
    "bytes": "a string of base64",
    "datetime": "a time of RFC 3339",
    "date": "a date of RFC 3339",
    "uuid": "a UUID",
}
_UNITS = {"str": "characters", "array": "items", "object": "members", "bytes": "bytes"}
_SIGNS = {"<=": "at most", ">=": "at least", "<": "less than", ">": "more than", "==": "exactly"}
_CHOICE = re.compile(r"(?:at least )?one of (?P<first>\w+)")
"""Matches sentences of `openapi.contract.Body`, which are ours."""
_ENCODED = (
    ("base64", "must be base64"),
    ("RFC3339", "must be a time of RFC 3339"),
    ("timezone", "must be a time with its zone"),
    ("UUID", "must be a UUID"),
    ("out of range", "is a number out of range"),
    ("surrogate", "must be Unicode text"),
    ("utf-8", "must be UTF-8"),
)


def malformed(error: Exception) -> Problem:
    """Return the 400 Problem of a body that is not JSON, for the error of its decoder."""
    return Problem.of("malformed-body", f"The body is not JSON: {not_json(error)}.")


def not_json(error: Exception) -> str:
    """Return why a body is no JSON, as the end of a sentence: `it ends too early`."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8"
    text = str(error)
    at = _BYTE.search(text)
    if at is not None:
        return f"byte {at['at']} is not what JSON has there"
    if "truncated" in text:
        return "it ends too early"
    return "it is not well formed"


def field_error(message: str, whole: str = "body", kind: Any = None) -> FieldError:
    """Return the dotted field and what it must be, for the text of a `msgspec.ValidationError`.

    `whole` names the field if all of the value is meant. `kind` is the type that was wanted; it
    gives the values that a field may have.
    """
    at = _AT.search(message)
    path = at["path"].removeprefix("$").removeprefix(".") if at else ""
    text = message[: at.start()] if at else message
    for pattern, detail in ((_UNKNOWN, "unknown field"), (_MISSING, "required")):
        named = pattern.search(text)
        if named:
            return FieldError(f"{path}.{named['field']}" if path else named["field"], detail)
    if kind is not None and _VALUE.match(text) and (values := _values_at(kind, path)):
        return FieldError(path or whole, f"must be one of {', '.join(values)}")
    choice = _CHOICE.match(text)
    if choice is not None:
        return FieldError(path or choice["first"], text)
    return FieldError(path or whole, _detail(text))


def member_error(member: str, message: str) -> FieldError:
    """Return `field_error` of a value that stands in that member of the body, named from the whole
    body.
    """
    wrong = field_error(message, "")
    return FieldError(f"{member}{wrong.field}", wrong.detail)


def _values_at(kind: Any, path: str) -> list[str]:
    """Return the literals that a field may be; empty if they cannot be found."""
    types = list(alternatives(kind))
    for name in re.split(r"[.[]", path):
        if not name or name.endswith("]"):
            types = [inner for one in types for arg in get_args(one) for inner in alternatives(arg)]
            continue
        fields = [
            field.type
            for one in types
            if isinstance(one, type) and issubclass(one, msgspec.Struct)
            for field in msgspec.structs.fields(one)
            if field.encode_name == name
        ]
        types = [each for field in fields for each in alternatives(field)]
    return [str(value) for one in types if get_origin(one) is Literal for value in get_args(one)]


def alternatives(type_: Any) -> Iterator[Any]:
    """Yield the types of a union, without their limits; a type that is no union is its only one."""
    origin = get_origin(type_)
    if origin is Annotated:
        yield from alternatives(get_args(type_)[0])
    elif origin in (Union, UnionType):
        for one in get_args(type_):
            yield from alternatives(one)
    else:
        yield type_


def _detail(text: str) -> str:
    expected = _EXPECTED.match(text)
    if expected is not None:
        return _expectation(expected["wanted"], expected["rest"])
    value = _VALUE.match(text)
    if value is not None:
        return f"{value['value'][:80]} is none of its values"
    for mark, words in _ENCODED:
        if mark in text:
            return words
    return "does not fit"


def _expectation(wanted: str, rest: str) -> str:
    kinds = [each.strip() for each in wanted.split("|")]
    got = _GOT.search(rest)
    given = f", not {_NAMES.get(got['got'], got['got'])}" if got else ""
    if "timezone" in rest:
        return "must be a time of RFC 3339 with its zone"
    length = _LENGTH.search(rest)
    if length is not None:
        sign = _SIGNS.get(length["sign"] or "==", "exactly")
        return f"must have {sign} {length['limit']} {_UNITS.get(kinds[0], 'members')}"
    multiple = _MULTIPLE.search(rest)
    if multiple is not None:
        return f"must be a multiple of {multiple['limit']}"
    limit = _LIMIT.search(rest)
    named = " or ".join(_NAMES.get(kind, "of another type") for kind in kinds)
    if limit is not None:
        return f"must be {named}, {_SIGNS[limit['sign']]} {limit['limit']}"
    pattern = _PATTERN.search(rest)
    if pattern is not None:
        if pattern["pattern"] == repr(NO_CONTROL):
            return "must have no control characters"
        return f"must match the pattern {pattern['pattern']}"
    return f"must be {named}{given}"
