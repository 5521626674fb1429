"""JSON values as YAML: for people who read a record, and for `--output yaml`.

Strings are written plain only where YAML 1.1 and 1.2 both read them as that string; else they are
quoted as in JSON, which is YAML too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

_PLAIN = re.compile(r"[A-Za-z/_][A-Za-z0-9 _./@+-]*(?<! )")
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_NOT_STRINGS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


def yaml_text(value: object) -> str:
    """Ends with a line break."""
    return "".join(f"{line}\n" for line in _lines(value))


def _lines(value: object) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _entry(f"{scalar(str(name))}:", inner, in_list=False)
    elif isinstance(value, list | tuple) and value:
        for inner in value:
            yield from _entry("-", inner, in_list=True)
    else:
        yield scalar(value)


def _entry(head: str, inner: object, *, in_list: bool) -> Iterator[str]:
    if not isinstance(inner, dict | list | tuple) or not inner:
        yield f"{head} {scalar(inner)}"
        return
    lines = _lines(inner)
    if in_list:
        yield f"{head} {next(lines)}"
    else:
        yield head
    yield from (f"  {line}" for line in lines)


def scalar(value: object) -> str:
    """Return a value in one line."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _NOT_STRINGS:
        return value
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, float) and "." not in text:
        text = text.replace("e", ".0e")  # YAML 1.1 reads only a number with a dot as one
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
