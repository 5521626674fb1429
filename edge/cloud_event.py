"""CloudEvents 1.0 as messages: when a message is an event, and the context attributes of that
event.

A context attribute of an event is the message's attribute of that name with `ce-` before it, in
every mode of publishing; `datacontenttype` is the message's content type, and the data is its body.
A message without `ce-specversion` is no event.

Attributes of a message are texts. The names of context attributes that were a bare number or a bare
true or false in JSON are kept in `packetboat-event-literals`, so that they are written as that in
JSON again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, NamedTuple

import msgspec

PREFIX = "ce-"
SPEC_VERSION = "ce-specversion"
LITERALS = "packetboat-event-literals"
VERSION = "1.0"
REQUIRED = ("specversion", "id", "source", "type")
MIN_INTEGER, MAX_INTEGER = -(2**31), 2**31 - 1
_NOT_EMPTY = frozenset({*REQUIRED, "subject", "dataschema", "partitionkey"})
_NOT_ATTRIBUTES = frozenset({"data", "datacontenttype"})
"""Names that are no attributes: the body and its content type carry them."""
_NAME = re.compile(r"[a-z0-9]+")
_LITERAL = re.compile(r"true|false|0|-?[1-9][0-9]{0,9}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_Time = Annotated[datetime, msgspec.Meta(tz=True)]


class Fault(NamedTuple):
    """A context attribute that is wrong, and what it must be."""

    name: str
    detail: str


def context_of(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return the context attributes among the attributes of a message, without their prefix."""
    start = len(PREFIX)
    return {name[start:]: value for name, value in attributes.items() if name.startswith(PREFIX)}


def fault_of(context: Mapping[str, str]) -> Fault | None:
    """Return the first fault of an event's context attributes, or None."""
    for name in REQUIRED:
        if name not in context:
            return Fault(name, "is required in a CloudEvent.")
    if context["specversion"] != VERSION:
        return Fault("specversion", f"must be {VERSION}.")
    for name, value in context.items():
        if not _NAME.fullmatch(name):
            return Fault(name[:64], "a name has only small ASCII letters and digits.")
        if name in _NOT_ATTRIBUTES:
            return Fault(name, "is the body or its content type, and not an attribute.")
        if not value and name in _NOT_EMPTY:
            return Fault(name, "must not be empty.")
        if _CONTROL.search(value):
            return Fault(name, "must have no control characters.")
    if "time" in context and not _is_time(context["time"]):
        return Fault("time", "must be a time of RFC 3339 with its zone.")
    return None


def event_of(attributes: Mapping[str, str] | None) -> dict[str, str] | None:
    """Return the context attributes of the event that a stored message is, or None if it is no
    event.
    """
    if not attributes or SPEC_VERSION not in attributes:
        return None
    context = context_of(attributes)
    return None if fault_of(context) else context


def literals_of(attributes: Mapping[str, str]) -> frozenset[str]:
    """Return the names of context attributes that are bare in JSON: a number, true or false."""
    names = attributes.get(LITERALS)
    if not names:
        return frozenset()
    return frozenset(
        name for name in names.split(" ") if _is_literal(attributes.get(PREFIX + name, ""))
    )


def _is_literal(text: str) -> bool:
    if not _LITERAL.fullmatch(text):
        return False
    return text in ("true", "false") or MIN_INTEGER <= int(text) <= MAX_INTEGER


def _is_time(text: str) -> bool:
    try:
        msgspec.convert(text, _Time)
    except msgspec.ValidationError:
        return False
    return True
