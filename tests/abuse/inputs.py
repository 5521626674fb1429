"""Hostile requests for a route, made from what the contract says of it.

Each kind of parameter and of body has its own: a route that is new in the contract has them without
a line here.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote

from tests.abuse import heavy
from tests.abuse.contract import FORM, JSON, Field, Ids, Route, example

KIB = 1024
LONG = 60 * KIB
"""The length of long parts of a head, which has at most 64 KiB."""
SIZES = (KIB, 16 * KIB, 32 * KIB, 64 * KIB, 256 * KIB, 2048 * KIB, 14 * 1024 * KIB, 32 * 1024 * KIB)
"""Most that a route's body may have; which one, the server is asked."""
WAITS = ("wait_seconds", "max_seconds", "heartbeat_seconds")
"""Waiting is what they are for: the largest value would only take the attacker's time."""
DIGITS = "9" * 20_000
Shape = Callable[[], bytes]
Value = Callable[[], Any]


class Input(NamedTuple):
    what: str
    make: Callable[[], bytes]
    """The request. It may be long, so it is made when it is sent."""


class Maker:
    """The maker of requests to one route, by one caller."""

    def __init__(self, route: Route, ids: Ids, token: str | None, max_body_bytes: int) -> None:
        self.route = route
        self._token = token
        self._max_body_bytes = max_body_bytes
        self._path, self._headers, self._body = route.good(ids)
        self._ids = ids

    def inputs(self) -> Iterator[Input]:
        """Yield all inputs."""
        yield from self._paths()
        yield from self._queries()
        yield from self._heads()
        for kind, schema in self.route.bodies.items():
            yield from self._bodies(kind, schema)
        if not self.route.bodies:
            made = partial(self.request, body=b"x" * self._max_body_bytes)
            yield Input("a body that is none", made)

    def some(self, count: int, seed: int) -> list[Input]:
        """Return `count` inputs, drawn by the seed; those of expressions and definitions always."""
        everything = list(self.inputs())
        always = [one for one in everything if one.what.startswith("heavy ")][:count]
        others = [one for one in everything if not one.what.startswith("heavy ")]
        drawn = random.Random(f"{self.route.label} {seed}").sample(others, min(count, len(others)))
        return always + drawn

    def request(
        self,
        *,
        path: str | None = None,
        query: str | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        body: bytes | None = None,
        kind: str | None = None,
    ) -> bytes:
        """Return the bytes of a request; parts that are not given are as in a good one."""
        target = self._path if path is None else path
        if query is not None:
            target = target.partition("?")[0] + "?" + query
        fields: dict[str, str | bytes] = {"Host": "abuse", **self._headers}
        if self._token is not None:
            fields["Authorization"] = f"Bearer {self._token}"
        if body is None and self.route.bodies:
            _, _, good = self.route.good(self._ids)
            kind = kind or (JSON if JSON in self.route.bodies else next(iter(self.route.bodies)))
            body = form(good) if kind == FORM else json.dumps(good).encode()
        if body is not None:
            fields["Content-Type"] = kind or JSON
            fields["Content-Length"] = str(len(body))
        elif self.route.method != "GET":
            fields["Content-Length"] = "0"
        fields |= headers or {}
        lines = [f"{self.route.method} {target} HTTP/1.1".encode("latin-1", "replace")]
        for name, value in fields.items():
            raw = value if isinstance(value, bytes) else value.encode("utf-8", "replace")
            lines.append(name.encode() + b": " + raw)
        return b"\r\n".join(lines) + b"\r\n\r\n" + (body or b"")

    def _paths(self) -> Iterator[Input]:
        for parameter in self.route.parameters:
            if parameter.where != "path":
                continue
            for what, value in (
                ("long", "a" * LONG),
                ("percent", "%41" * (LONG // 3)),
                ("digits", DIGITS),
                ("dots", "%2e%2e%2f" * 1000),
                ("NUL", "a%00"),
                ("no UTF-8", "%ff%fe"),
                ("colons", ":" * LONG),
            ):
                path = self.route.template.replace("{" + parameter.name + "}", value)
                for other in self.route.parameters:
                    path = path.replace("{" + other.name + "}", "1")
                yield Input(f"path {parameter.name} {what}", partial(self.request, path=path))

    def _queries(self) -> Iterator[Input]:
        good = self._path.partition("?")[2]
        for what, text in (
            ("unknown names", "&".join(f"u{n}" for n in range(9000))),
            ("one name", "&".join(["a=b"] * 15_000)),
            ("separators", "&" * LONG),
            ("percent", "%41=%41&" * (LONG // 8)),
        ):
            yield Input(f"query {what}", partial(self.request, query=text))
        for parameter in self.route.parameters:
            if parameter.where != "query":
                continue
            for what, value in values_of(parameter.name, parameter.schema, LONG // 3):
                if parameter.name in WAITS and what == "limit":
                    continue
                made = value()
                text = quote(made if isinstance(made, str) else json.dumps(made), safe="")
                query = f"{good}&" * bool(good) + f"{parameter.name}={text[:LONG]}"
                kind = "heavy " if what == "heavy" else ""
                yield Input(
                    f"{kind}query {parameter.name} {what}", partial(self.request, query=query)
                )
            many = "&".join([f"{parameter.name}=1"] * (LONG // (len(parameter.name) + 3)))
            yield Input(f"query {parameter.name} many", partial(self.request, query=many))

    def _heads(self) -> Iterator[Input]:
        for what, headers in (
            ("many fields", {f"x{n}": "y" for n in range(250)}),
            ("a long field", {"x": "y" * LONG}),
            ("cookies", {"Cookie": "a=b; " * (LONG // 5)}),
            ("forwarded", {"Forwarded": "for=1, " * (LONG // 7)}),
            ("origin", {"Origin": "https://" + "a" * LONG}),
            ("request id", {"X-Request-Id": "a" * LONG}),
            ("expect", {"Expect": "100-continue"}),
            ("encoding", {"Content-Encoding": "gzip, " * 1000 + "gzip"}),
            ("priority", {"Priority": "u=" + DIGITS}),
            ("a long token", {"Authorization": "Bearer " + "a" * LONG}),
            ("a deep token", {"Authorization": "Bearer " + deep_token()}),
            ("a basic secret", {"Authorization": "Basic " + "YTph" * (LONG // 4)}),
            ("etags", {"If-Match": ", ".join(['"1"'] * (LONG // 5))}),
        ):
            yield Input(f"head {what}", partial(self.request, headers=headers))
        for parameter in self.route.parameters:
            if parameter.where == "header":
                for what, value in values_of(parameter.name, parameter.schema, LONG):
                    made = value()
                    text = made if isinstance(made, str) else json.dumps(made)
                    headers = {parameter.name: text[:LONG].replace("\n", " ")}
                    made = partial(self.request, headers=headers)
                    yield Input(f"head {parameter.name} {what}", made)

    def _bodies(self, kind: str, schema: Mapping[str, Any]) -> Iterator[Input]:
        size = self._max_body_bytes
        good = self._body if kind == JSON and self._body is not None else example(schema)
        if kind == FORM:
            shapes = forms(size)
        elif kind == "application/msgpack":
            shapes = messagepacks(size)
        elif "ndjson" in kind:
            shapes = lines(size)
        else:
            shapes = documents(size, good)
        for what, shape in shapes:
            yield Input(f"body {kind} {what}", partial(self._shaped, shape, size, kind))
        beyond = partial(self._shaped, lambda: b" " * (size + 1), size + 1, kind)
        yield Input(f"body {kind} one byte too long", beyond)
        if kind == JSON and isinstance(good, dict):
            for one in self.route.fields():
                yield from self._field(one, good, size)

    def _field(self, one: Field, good: dict[str, Any], size: int) -> Iterator[Input]:
        for what, value in values_of(one.name, one.schema, size - KIB):
            if one.name in WAITS and what == "limit":
                continue
            kind = "heavy " if what == "heavy" else ""
            field = ".".join(one.path)
            shape = partial(_with_field, good, one.path, value)
            yield Input(f"{kind}field {field} {what}", partial(self._shaped, shape, size, JSON))

    def _shaped(self, shape: Shape, most_bytes: int, kind: str) -> bytes:
        return self.request(body=shape()[:most_bytes], kind=kind)


def _with_field(good: dict[str, Any], path: tuple[str, ...], value: Value) -> bytes:
    return json.dumps(placed(good, path, value()), separators=(",", ":")).encode()


def values_of(name: str, schema: Mapping[str, Any], size: int) -> Iterator[tuple[str, Value]]:
    """Yield values for a parameter or field of that name and type, of about `size` bytes at
    most.
    """
    for value in heavy.of_field(name):
        yield "heavy", partial(_same, value)
    kind = schema.get("type")
    if kind == "string" or kind is None:
        yield "long", lambda: "a" * size
        yield "long outside ASCII", lambda: "\u20ac" * (size // 9)
        if "date" in schema.get("format", ""):
            yield "digits", lambda: "2026-01-01T00:00:00." + "9" * min(size, LONG) + "Z"
            yield "limit", lambda: "9999-12-31T23:59:59.999999999+23:59"
        if "maxLength" in schema:
            yield "limit", lambda: "a" * min(size, schema["maxLength"])
    if kind in ("integer", "number") or kind is None:
        yield "limit", lambda: schema.get("maximum", 2**63 - 1)
        yield "negative", lambda: -(2**63)
        yield "huge", lambda: 1e308
    if kind == "boolean":
        yield "long", lambda: "a" * size
    if kind == "array":
        item = example(schema.get("items", {}))
        most = schema.get("maxItems", 100_000)
        room = max(1, size // (len(json.dumps(item)) + 1))
        yield "limit", lambda: [item] * min(most, room)
        yield "many", lambda: [item] * room
        yield "many that differ", lambda: [f"a{n}" for n in range(min(room, size // 9))]
    if kind == "object" or kind is None:
        yield "many names", lambda: {f"k{n:06}": "" for n in range(size // 13)}


def _same(value: Any) -> Any:
    return value


def documents(size: int, good: Any) -> Iterator[tuple[str, Shape]]:
    """Yield JSON of about that size, and documents that are nearly JSON."""
    text = json.dumps(good).encode()
    half = (size - len(text)) // 2
    yield "padding", lambda: b" " * (size - len(text)) + text
    yield "deep arrays", lambda: b"[" * (size // 2) + b"]" * (size // 2)
    yield "deep objects", lambda: b'{"a":' * (size // 5)
    yield "arrays of middling depth", lambda: nested(size)
    yield "zeros", lambda: b"[" + b"0," * (size // 2 - 2) + b"0]"
    yield "empty objects", lambda: b"[" + b"{}," * (size // 3 - 2) + b"{}]"
    yield "whole floats", lambda: b"[" + b"1.0," * (size // 4 - 2) + b"1.0]"
    yield "names", lambda: json.dumps({f"n{n:06}": 0 for n in range(size // 14)}).encode()
    yield "one name", lambda: b"{" + b'"a":0,' * (size // 6 - 2) + b'"a":0}'
    yield "escaped names", lambda: b"{" + b'"\\u0061":0,' * (size // 11 - 2) + b'"a":0}'
    yield "a long number", lambda: b"[" + b"9" * (size - 2) + b"]"
    yield "a long exponent", lambda: b"[1e" + b"9" * (size - 4) + b"]"
    yield "a long fraction", lambda: b"[0." + b"0" * (size - 6) + b"1]"
    yield "a long string", lambda: b'["' + b"a" * (size - 4) + b'"]'
    yield "escapes", lambda: b'["' + b"\\u00e9" * ((size - 4) // 6) + b'"]'
    yield "half surrogates", lambda: b'["' + b"\\ud800" * ((size - 4) // 6) + b'"]'
    yield "an end that is no UTF-8", lambda: b'["' + b"a" * (size - 5) + b'\xff"]'
    yield "an end that is no JSON", lambda: text[:-1] + b" " * (2 * half - 1) + b"]"
    yield "UTF-16", lambda: ("\ufeff" + text.decode()).encode("utf-16")
    yield "NUL", lambda: b"\0" * size


def nested(size: int) -> bytes:
    """Return an array of arrays that are as deep as decoders accept, and no deeper."""
    one = b"[" * 500 + b"]" * 500
    return b"[" + b",".join([one] * (size // (len(one) + 1) - 1 or 1)) + b"]"


def lines(size: int) -> Iterator[tuple[str, Shape]]:
    """Yield inputs of NDJSON."""
    yield "empty lines", lambda: b"\n" * size
    yield "empty objects", lambda: b"{}\n" * (size // 3)
    yield "small messages", lambda: b'{"data":1}\n' * (size // 11)
    yield "one line", lambda: b'{"data":"' + b"a" * (size - 11) + b'"}'
    yield "deep lines", lambda: (b"[" * 400 + b"]" * 400 + b"\n") * (size // 801)
    yield "no end", lambda: b'{"data":' * (size // 8)


def messagepacks(size: int) -> Iterator[tuple[str, Shape]]:
    """Yield inputs of MessagePack."""
    yield "deep", lambda: b"\x91" * size
    yield "an array that is announced", lambda: b"\xdd\xff\xff\xff\xff" + b"\xc0" * (size - 5)
    yield (
        "a map that is announced",
        lambda: b"\xdf\xff\xff\xff\xff" + b"\xa1a\xc0" * (size // 3 - 2),
    )
    yield "a string that is announced", lambda: b"\xdb\xff\xff\xff\xff" + b"a" * (size - 5)
    yield "nils", lambda: b"\xdd" + (size - 5).to_bytes(4, "big") + b"\xc0" * (size - 5)


def forms(size: int) -> Iterator[tuple[str, Shape]]:
    """URL-encoded forms."""
    yield "pairs", lambda: b"a=b&" * (size // 4)
    yield "separators", lambda: b"&" * size
    yield "percent", lambda: b"grant_type=" + b"%41" * ((size - 11) // 3)
    client = b"grant_type=client_credentials&client_id=a&client_secret="
    yield "a secret", lambda: client + b"a" * (size - len(client))
    yield "an assertion", lambda: b"grant_type=client_credentials&token=" + deep_token().encode()


def form(good: Any) -> bytes:
    return "&".join(f"{name}={quote(str(value))}" for name, value in good.items()).encode()


def deep_token() -> str:
    """Return something like a JWT, whose head is deep JSON."""
    head = base64.urlsafe_b64encode(b'{"alg":' + b"[" * 20_000).decode()
    return f"{head}.{head[:16_000]}.AAAA"


def placed(good: Mapping[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """Return a copy with that value at that path; missing objects on the path are made."""
    name, *rest = path
    if not rest:
        return {**good, name: value}
    several, name = name.endswith("[]"), name.removesuffix("[]")
    inner = good.get(name)
    if several:
        inner = inner[0] if isinstance(inner, list) and inner else None
    inside = placed(inner if isinstance(inner, dict) else {}, tuple(rest), value)
    return {**good, name: [inside] if several else inside}
