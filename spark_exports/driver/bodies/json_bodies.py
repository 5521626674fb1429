"""JSON bodies as rows of columns.

Almost every body is read by one call of a compiled reader that knows the columns: it refuses
members and values for which there is no column. It would accept two kinds of bodies that it does
not read exactly. They are found by two cheap checks of the text, and then read by the strict
reader:

- A member that occurs twice: written again, the row has fewer members than the text.
- A number that a double rounds: it has 16 digits or more, or an exponent.

Both checks may be wrong in one direction only, that of reading again.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from spark_exports.driver.bodies.nodes import StructNode
from spark_exports.driver.bodies.values import Undecodable, json_value

_ODD = re.compile(rb'"[ \t\r\n]+:|\\u0022')
"""Members are counted by `":`, so a text with another way to end a name is read strictly."""
_LONG_NUMBER = re.compile(rb"[0-9][0-9.]{15,}|[0-9][eE][-+0-9]")
_NUMBER = re.compile(rb"-?[0-9][0-9.]{15,}(?:[eE][-+]?[0-9]+)?|-?[0-9][0-9.]*[eE][-+]?[0-9]+")


class Decoded(NamedTuple):
    """A body as a row; `is_whole` says that the row has all of the body.

    `value` is there if the body had to be read by the strict reader.
    """

    row: Any
    is_whole: bool
    value: Any = None


class JsonBodies:
    """A reader of bodies into rows of `columns`."""

    def __init__(self, columns: pa.Schema) -> None:
        self.node = StructNode(tuple(columns))
        self._read = msgspec.json.Decoder(self.node.type).decode if self.node.is_fast else None
        self._write = msgspec.json.Encoder().encode
        self._has_doubles = any(_has_doubles(field.type) for field in columns)
        self.empty = self.node.type()

    def row(self, body: bytes) -> Decoded:
        """Return a body as a row. Raises Undecodable if it is no JSON object."""
        if self._read is not None:
            try:
                row = self._read(body)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                pass
            else:
                if self._is_exact(body, row):
                    return Decoded(row, True)
        value = json_value(body)
        if not isinstance(value, dict):
            raise Undecodable("not-an-object")
        row, is_whole = self.node.fit(value)
        return Decoded(row, is_whole, value)

    def holds(self, body: bytes) -> bool:
        """Return True if there certainly is a column for each of its values; False says nothing."""
        if self._read is None:
            return False
        try:
            self._read(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        return True

    def _is_exact(self, body: bytes, row: Any) -> bool:
        if _ODD.search(body) or body.count(b'":') != self._write(row).count(b'":'):
            return False
        if self._has_doubles and _LONG_NUMBER.search(body):
            return all(map(_is_shortest, _NUMBER.findall(body)))
        return True


def _is_shortest(text: bytes) -> bool:
    """Return whether the text is certainly how Python writes this double."""
    try:
        return repr(float(text)).encode() == text
    except ValueError:
        return False


def _has_doubles(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_doubles(field.type) for field in kind)
    if pa.types.is_list(kind):
        return _has_doubles(kind.value_type)
    return bool(pa.types.is_floating(kind))
