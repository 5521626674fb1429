"""Values that cost more than they are long: expressions, patterns, schemas, names, encoded data.

Each group has those of the audit that took seconds, and their neighbours. None says that it must be
refused: the product may refuse it, or work on it within its bounds.
"""

from __future__ import annotations

import base64
import json
import random
from typing import Any

MAX_EXPRESSION = 4096
MAX_PATTERN = 256
_LETTERS = random.Random(1)


def expressions() -> dict[str, str]:
    """Filters and skip rules, none longer than an expression may be."""
    zeros = "[" + ",".join("0" for _ in range(100)) + "]"
    nested = f"{zeros}.all(a, {zeros}.all(b, {zeros}.all(c, a + b + c == 0)))"
    # The engine reads a raw string to its quotes; a checker that takes the backslash for an escape
    # sees one long string where the engine sees an expression.
    hidden = 'r"""\\""" == "a" || (' + nested + ') || "b" == r"""\\"""'
    return {
        "loops in loops": nested,
        "loops in a raw string": hidden,
        "loops in a raw string of one quote": hidden.replace('"""', "'''"),
        "a long chain": " || ".join(["key == 'a'"] * 250),
        "deep parentheses": "(" * 2000 + "true" + ")" * 2000,
        "deep negation": "!" * 4000 + "true",
        "a tower of conditions": "true ? " * 280 + "true" + " : true" * 280,
        "patterns": " || ".join(["key.matches('(a|a|a)*b')"] * 130),
        "a pattern with counts": "key.matches('((a{1,30}){1,30}){1,30}b')",
        "doubled text": "size(" + "+".join(["key"] * 900) + ") > 0",
        "lists of lists": "[" * 1500 + "]" * 1500 + " == []",
        "a map": "{" + ",".join(f"{n}: {n}" for n in range(450)) + "} == {}",
        "has": " && ".join(["has(attributes.a)"] * 190),
    }


def definitions() -> dict[str, Any]:
    """Return JSON schemas that are costly to check."""
    return {
        "an automaton": {"pattern": "(?:a|b)*a(?:a|b){4000}c"},
        "many automata": {"allOf": [{"pattern": f"\\w{{20}}y{n}"} for n in range(200)]},
        "formats": {"items": {"format": "regex"}},
        "a long enum": {"items": {"enum": list(range(15_000))}},
        "an enum of objects": {"items": {"enum": [{f"a{n}": n} for n in range(4000)]}},
        "many properties": {
            "items": {"properties": {f"p{n}": {"type": "string"} for n in range(1900)}}
        },
        "a ring of references": {
            "$defs": {str(n): {"$ref": f"#/$defs/{n + 1}"} for n in range(500)}
            | {"500": {"$ref": "#/$defs/0"}},
            "$ref": "#/$defs/0",
        },
        "doubling references": {
            "$defs": {str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(24)}
            | {"24": {"type": "string"}},
            "$ref": "#/$defs/0",
        },
        "deep": _deep(800),
        "unevaluated": {
            "anyOf": [{"properties": {f"p{n}": {}}} for n in range(500)],
            "unevaluatedProperties": False,
        },
    }


def _deep(levels: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


def bodies() -> dict[str, bytes]:
    """Return JSON bodies for a topic that has one of those schemas."""
    text = "".join(_LETTERS.choice("ab") for _ in range(32 * 1024))
    return {
        "a text for automata": json.dumps(text).encode(),
        "values of an enum": ("[" + ",".join(["14999"] * 10_000) + "]").encode(),
        "empty objects": ("[" + ",".join(["{}"] * 20_000) + "]").encode(),
        "patterns as values": json.dumps([f"\\w{{{400 + n}}}" for n in range(50)]).encode(),
    }


NULLS = {"type": "array", "items": "null"}


def avro_nulls(count: int = 99_990) -> str:
    """Return an array of `count` nulls, in Base64: its body is four bytes long."""
    left, encoded = count << 1, bytearray()
    while left > 127:
        encoded.append(left & 127 | 128)
        left >>= 7
    encoded += bytes((left, 0))
    return base64.b64encode(bytes(encoded)).decode()


def stars(kind: str, count: int) -> list[str]:
    """Return patterns of names that try many places each."""
    return [f"{kind}{'*a' * 100}{n}"[: MAX_PATTERN - 8] + f"-{n}" for n in range(count)]


def of_field(name: str) -> list[Any]:
    """Return values to try for a field or parameter of that name, besides those that its
    type suggests.
    """
    if name in ("filter", "expression"):
        return list(expressions().values())
    if name == "definition":
        return [*definitions().values(), NULLS, {"type": "record", "name": "R", "fields": []}]
    if name == "cron":
        return ["0 0 29 2 1#5", "59 23 29 2 */7", "0 0 L 2 6#5", "*/1 " * 5 + "," * 190, "0 " * 99]
    if name == "members":
        return [stars("client:", 500)]
    if name == "resources":
        return [stars("topics/", 100)]
    if name == "scopes":
        return [stars("read:topics/", 100)]
    if name == "page_token":
        return ["A" * 8000, base64.urlsafe_b64encode(b"[" * 6000).decode()]
    if name == "url":
        return ["https://" + "a." * 1000 + "example/", "https://[::1%25" + "a" * 1900 + "]/"]
    if name == "time_zone":
        return ["../" * 33, "Europe/" + "A" * 90]
    if name == "data_base64":
        return [avro_nulls(), "=" * 200_000, "A" * 200_001]
    return []
