"""Writes `packetboat.calls`: a function for each operation, which makes a request of arguments."""

from __future__ import annotations

from collections.abc import Iterable
from keyword import iskeyword
from typing import get_type_hints

import msgspec

from openapi.areas import OPERATIONS
from openapi.contract import Operation
from openapi.sdk.methods import (
    IN_BRACES,
    Area,
    Argument,
    Method,
    arguments,
    asks_by_settings,
    call_name,
    tagged,
    with_settings,
)
from openapi.sdk.text import module
from openapi.sdk.types import answer_type

PAGES = ["page_size: int", "page_token: str | None"]


def written(*areas: Area) -> str:
    """Return the text of the calls of areas that share a module."""
    functions = []
    for area in areas:
        for method in area.methods:
            functions.append(_function(area, method, method.operation))
            if method.own:
                functions.append(_function(area, method, method.own))
    return module(f"Calls of {area_names(areas)}.", areas[0], "\n\n\n".join(functions))


def area_names(areas: Iterable[Area]) -> str:
    """Return the names of areas, for a sentence."""
    return ", ".join(area.name.replace("_", " ") for area in areas)


def result(method: Method, operation: Operation) -> tuple[str, str]:
    """Return the type of the result, and the member of the answer that it is; "" is all of it."""
    kind = operation.answers[-1].kind
    if kind is None or method.result == "None":
        return "None", ""
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return method.result or answer_type(kind), ""
    fields = msgspec.structs.fields(kind)
    hints = get_type_hints(kind, include_extras=True)
    if not fields:
        return "None", ""
    if method.member:
        return answer_type(hints[method.member]), method.member
    if operation.paged:
        items = answer_type(hints[fields[0].name])
        return items.removeprefix("tuple[").removesuffix(", ...]"), fields[0].encode_name
    if len(fields) == 1 and not method.whole:
        return method.result or answer_type(hints[fields[0].name]), fields[0].encode_name
    return method.result or answer_type(kind), ""


def _function(area: Area, method: Method, operation_id: str) -> str:
    operation = OPERATIONS[operation_id]
    given = [
        # The argument of the path is required here: the method has chosen the operation.
        each._replace(kind=each.kind.removesuffix(" | None")) if each.where == "path" else each
        for each in arguments(area, method, operation_id)
    ]
    heads = [f"{each.name}: {each.kind}" for each in given]
    if method.settings:
        heads = with_settings(heads, given, "settings: Mapping[str, Any]")
    kind, member = result(method, operation)
    if operation.paged:
        heads += PAGES
        kind, member = (method.result, "") if method.result else (f"Page[{kind}]", member)
    lines = _body(method, given)
    call = _call(method, operation, given, kind, member)
    text = f"def {call_name(method, operation_id)}({', '.join(heads)}) -> Call[{kind}]:\n"
    return text + "".join(f"    {line}\n" for line in [*lines, f"return {call}"]).rstrip()


def _body(method: Method, given: list[Argument]) -> list[str]:
    """Return the lines that make the body."""
    if OPERATIONS[method.operation].method == "GET":
        return []
    sent = [each for each in given if each.where == "body"]
    required = [each for each in sent if each.default is None or not _left_out(each)]
    optional = [each for each in sent if each not in required]
    if not (sent or method.settings or method.spec):
        return []
    members = [f'"{each.sent}": {_value(each)}' for each in required]
    members += [f'"{name}": {value}' for name, value in method.constant.items()]
    members += ["**settings"] if method.settings else []
    members += ["**msgspec.to_builtins(spec)"] if method.spec else []
    lines = [f"body: dict[str, Any] = {{{', '.join(members)}}}"]
    if optional:
        lines.append(f"put(body, {_keywords(optional)})")
    if method.body:
        lines.append(f"body = {method.body}(body)")
    return lines


def _left_out(argument: Argument) -> bool:
    """Return whether an argument is not sent where it is None."""
    return argument.default == "None"


def _keywords(given: list[Argument]) -> str:
    plain = [f"{each.sent}={_value(each)}" for each in given if not iskeyword(each.sent)]
    others = [f'"{each.sent}": {_value(each)}' for each in given if iskeyword(each.sent)]
    return ", ".join([*plain, f"**{{{', '.join(others)}}}"] if others else plain)


def _value(argument: Argument) -> str:
    if argument.encoded:
        return f"{argument.encoded}({argument.name})"
    return f"moment({argument.name})" if argument.moment else argument.name


def _call(
    method: Method, operation: Operation, given: list[Argument], kind: str, member: str
) -> str:
    path = _path(operation, given)
    query = _query(method, operation, given)
    etag = ", tagged=True" if tagged(method, operation) and not operation.paged else ""
    if operation.paged and not method.result:
        paged = f'page({path}, "{member}", {kind[5:-1]}, page_size, page_token'
        return f"{paged}, {query})" if query else f"{paged})"
    if operation.method == "GET":
        return _waiting(method, _fetched(method, path, query, kind, member, etag))
    return _waiting(method, _sent(method, operation, given, path, query, kind, member, etag))


def _query(method: Method, operation: Operation, given: list[Argument]) -> str:
    """Return the query as an expression, if there is one."""
    if asks_by_settings(method, operation):
        return f"{method.body}(settings)" if method.body else "settings"
    asked = [f'"{each.sent}": {_asked(each)}' for each in given if each.where == "query"]
    if operation.paged and method.result:
        asked += ['"page_size": page_size', '"page_token": page_token']
    return f"{{{', '.join(asked)}}}" if asked else ""


def _fetched(method: Method, path: str, query: str, kind: str, member: str, etag: str) -> str:
    asked = f", {query}" if query else ""
    safe = "" if method.safe == "False" else ", safe=True"
    if member:
        return f"Call(get({path}{asked}), {_member(member, kind)}{safe})"
    if kind in ("None", "str"):
        return f"Call(get({path}{asked}), {'nothing' if kind == 'None' else 'text'}{safe})"
    return f"fetch({path}, {kind}{asked}{etag})"


def _sent(
    method: Method,
    operation: Operation,
    given: list[Argument],
    path: str,
    query: str,
    kind: str,
    member: str,
    etag: str,
) -> str:
    if_match = ", if_match=if_match" if any(each.where == "header" for each in given) else ""
    if operation.method == "DELETE" and kind == "None":
        force = ", force=force" if any(each.name == "force" for each in given) else ""
        call = f"delete({path}{force}{if_match})"
        return call + ("._replace(safe=True)" if method.safe == "True" else "")
    target = f"with_query({path}, {query})" if query else path
    has_body = any((method.settings, method.spec, *(each.where == "body" for each in given)))
    body = "body" if has_body else "None"
    if has_body and method.bodyless:
        body = "body or None"
    safe = _safe(method, operation)
    if member or kind == "None":
        read = _member(member, kind) if member else "nothing"
        return f'Call(send_json("{operation.method}", {target}, {body}), {read}{safe})'
    return f'change("{operation.method}", {target}, {body}, {kind}{safe}{if_match}{etag})'


def _member(name: str, kind: str) -> str:
    """Return the reader of one member of an answer."""
    plain = kind.removesuffix(" | None")
    return f'{"member" if plain == kind else "member_or_none"}("{name}", {plain})'


def _safe(method: Method, operation: Operation) -> str:
    """A request that replaces or merges may be sent twice, unless its answer tells a secret once:
    then the answer to a creation has a class of its own."""
    classes = {each.kind for each in operation.answers}
    derived = operation.method in ("PUT", "PATCH") and len(classes) == 1
    safe = method.safe or str(derived)
    return "" if safe == "False" else f", safe={safe}"


def _waiting(method: Method, call: str) -> str:
    return f"waiting({call}, {method.waits})" if method.waits else call


def _path(operation: Operation, given: list[Argument]) -> str:
    """Return the path as an expression in Python."""
    kinds = {each.sent: each for each in given if each.where == "path"}

    def part(sent: str) -> str:
        argument = kinds[sent]
        return argument.name if argument.kind == "int" else f"part({argument.name})"

    text = IN_BRACES.sub(lambda found: f"{{{part(found[1])}}}", operation.path)
    return f'f"{text}"' if kinds else f'"{text}"'


def _asked(argument: Argument) -> str:
    """Return a parameter of the query; False is left out."""
    return f"{argument.name} or None" if argument.default in ("False", "0") else argument.name
