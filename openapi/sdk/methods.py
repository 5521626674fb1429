"""The vocabulary for the areas of the SDK, and the arguments of a method.

A method of the SDK sends one operation of the contract. Its arguments follow from the operation:
the parameters of the path, the fields of the body and the parameters of the query. A row of an area
says the rest: the name of the method, the sentence for its users, and arguments that have another
name, type or default in Python.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, get_type_hints

import msgspec

from openapi.areas import OPERATIONS
from openapi.common import IN_PATH
from openapi.contract import Operation
from openapi.sdk.types import TIMES, argument_type, may_be_missing

IN_BRACES = re.compile(r"\{(\w+)\}")


class Given(NamedTuple):
    """An argument that differs from the field or the parameter that it is sent as."""

    sent: str
    """The name in the request."""
    name: str = ""
    """The name of the argument, if it is another."""
    kind: str = ""
    """The type of the argument, if it does not follow from the contract."""
    default: str | None = None
    """The default as text, if None would not do."""
    encoded: str = ""
    """The function of `packetboat.calls.bodies` that makes the value to send."""


class Method(NamedTuple):
    """One method of a resource. A method that lists stands for two: the second returns a page."""

    name: str
    """The name; "" is a method by hand, for which only the call is written."""
    operation: str
    """The id of the operation that it sends."""
    doc: str = ""
    """The docstring."""
    call: str = ""
    """The name of the call, if it is not that of the operation."""
    named: dict[str, str] = {}
    """The names in Python of parameters of the path, over those of the area."""
    own: str = ""
    """The id of the operation that it sends where the first argument is None."""
    positional: tuple[str, ...] = ()
    """The optional arguments that callers may give by position."""
    required: tuple[str, ...] = ()
    """The arguments that callers have to give although the contract lets them be left out."""
    keyword: tuple[str, ...] = ()
    """The required arguments that callers give by keyword."""
    settings: str = ""
    """The TypedDict of all fields, or of all parameters of the query, that are not arguments of
    their own."""
    spec: str = ""
    """The class of an argument `spec`, which has all fields of the body but the name."""
    fields: tuple[str, ...] = ()
    """The optional fields that are arguments of their own, where there are settings."""
    given: tuple[Given, ...] = ()
    left_out: tuple[str, ...] = ()
    """Fields and parameters that are not sent."""
    constant: dict[str, str] = {}
    """Fields that are always sent with this value, as text."""
    body: str = ""
    """The function of `packetboat.calls.bodies` that the body goes through."""
    bodyless: bool = False
    """Whether a request without fields is sent without a body."""
    safe: str = ""
    """The expression in Python that says whether sending the request twice does no harm."""
    waits: str = ""
    """The argument whose seconds the answer may take longer, or a number of seconds."""
    untagged: bool = False
    """Whether the model has no room for the ETag of the answer."""
    whole: bool = False
    """Whether the answer is returned as it is although it has one field."""
    result: str = ""
    """The type that is returned, if it does not follow from the contract."""
    member: str = ""
    """The only member of the answer that is returned."""
    page: str = "page"
    """The name of the method that returns one page."""


class Area(NamedTuple):
    """One resource of the SDK."""

    name: str
    """The name of its module, and of the attribute of a client."""
    kind: str
    """The class."""
    doc: str
    methods: tuple[Method, ...]
    named: dict[str, str] = {}
    """The names in Python of parameters of paths."""
    models: str = "packetboat.models"
    """The module that the models are imported from."""
    homes: dict[str, str] = {}
    """The modules of models that are in no other."""
    calls: str = ""
    """The module of its calls, if it shares one with other areas."""
    base: bool = False
    """Whether the resource has methods by hand, in a class that inherits from what is generated."""


def calls_module(area: Area) -> str:
    """Return the name of the module of an area's calls."""
    return area.calls or area.name


class Argument(NamedTuple):
    """One argument of a method and of its call."""

    name: str
    sent: str
    where: str
    """`path`, `body`, `query`, `header`, or `spec` for the body without its name."""
    kind: str
    default: str | None
    """The default as text; None where the argument is required."""
    keyword: bool
    encoded: str = ""
    moment: bool = False
    """Whether it is a time, which is checked for its zone."""


def call_name(method: Method, name: str) -> str:
    """Return the name of the call of an operation."""
    if method.call:
        return method.call
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower().replace("a_m_i", "am_i")


def arguments(area: Area, method: Method, operation_id: str = "") -> list[Argument]:
    """Return the arguments in the order of the call, without those of paging and the timeout."""
    operation = OPERATIONS[operation_id or method.operation]
    found = [
        *_of_path(area, method, operation),
        *_of_body(method, operation),
        *_of_parameters(method, operation),
    ]
    found.sort(key=lambda each: (each.default is not None, each.keyword))
    return found


def _of_path(area: Area, method: Method, operation: Operation) -> list[Argument]:
    named = IN_BRACES.findall(operation.path)
    found = []
    for index, sent in enumerate(named):
        name = (area.named | method.named).get(sent, sent)
        kind = argument_type(IN_PATH[sent].kind)
        found.append(Argument(name, sent, "path", kind, None, False))
        if index == 0 and method.own:
            found[0] = found[0]._replace(kind=f"{kind} | None", default="None")
    return found


def _of_body(method: Method, operation: Operation) -> list[Argument]:
    if operation.body is None or not isinstance(operation.body, type):
        return []
    hints = get_type_hints(operation.body, include_extras=True)
    given = {each.sent: each for each in method.given}
    found = []
    for field in msgspec.structs.fields(operation.body):
        sent = field.encode_name
        required = field.required or _named_by_post(operation, sent)
        own = required or sent in given or sent in method.required
        if sent in (*method.left_out, *method.constant):
            continue
        if sent == "name" and operation.method == "PUT":
            continue
        if method.spec and sent != "name":
            continue
        if method.settings and not own and sent not in method.fields:
            continue
        found.append(_argument(method, sent, "body", hints[field.name], required))
    if method.spec:
        found.append(Argument("spec", "", "spec", method.spec, None, False))
    return sorted(found, key=lambda each: each.sent != "name")


def _named_by_post(operation: Operation, sent: str) -> bool:
    """Return whether a field is the name of what a POST creates."""
    return sent == "name" and operation.method == "POST"


def _of_parameters(method: Method, operation: Operation) -> list[Argument]:
    found = []
    for each in operation.parameters:
        if each.where == "query" and asks_by_settings(method, operation):
            continue
        if each.where == "query" and each.name not in method.left_out:
            found.append(_argument(method, each.name, "query", each.kind, each.required))
        elif each.name == "If-Match" and each.name not in method.left_out:
            found.append(Argument("if_match", each.name, "header", "str | None", "None", True))
    return found


def asks_by_settings(method: Method, operation: Operation) -> bool:
    """Return whether the settings of a method are parameters of the query."""
    return bool(method.settings) and operation.method == "GET"


def with_settings(texts: list[str], given: list[Argument], settings: str) -> list[str]:
    """Return texts, one for each argument, with that of the settings before optional ones."""
    optional = (i for i, each in enumerate(given) if each.default is not None)
    place = next((i for i in optional if given[i].where != "path"), len(given))
    return [*texts[:place], settings, *texts[place:]]


def _argument(method: Method, sent: str, where: str, kind: Any, required: bool) -> Argument:
    given = next((each for each in method.given if each.sent == sent), Given(sent))
    required = required or sent in method.required
    text = given.kind or argument_type(kind, required)
    moment = text.removesuffix(" | None") == "datetime"
    name = given.name or (TIMES.get(sent, sent) if moment else sent)
    if text == "bool" and not required:
        given = given._replace(default=given.default or "False")
    if required:
        by_name = name in method.keyword
        return Argument(name, sent, where, text, given.default, by_name, given.encoded, moment)
    if given.default is None and not may_be_missing(text):
        text = f"{text} | None"
    default = given.default or "None"
    by_name = name not in method.positional
    return Argument(name, sent, where, text, default, by_name, given.encoded, moment)


def tagged(method: Method, operation: Operation) -> bool:
    """Return whether the answer has an ETag, which the model keeps."""
    headers = [header.name for each in operation.answers for header in each.headers]
    return "ETag" in headers and not method.untagged
