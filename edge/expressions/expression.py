"""One compiled expression. An evaluation that fails, or gives no boolean, is no match."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import cel

from edge.expressions import bounds
from edge.expressions.bounds import MAX_CHARS, Refused
from edge.expressions.conjunction import Conjunction, fields_of, split
from edge.expressions.tokens import scan
from edge.problem import FieldError

MESSAGE_VARIABLES = (
    "attributes",
    "data",
    "key",
    "content_type",
    "priority",
    "publish_time",
    "partition",
    "offset",
    "publisher_id",
)
"""What filters and skip rules may look at: `data` is the parsed JSON body or null."""
MAX_ERROR_CHARS = 200
_ERROR = re.compile(r"ERROR: <input>:(\d+):(\d+): (?:Syntax error: )?([^\n]*)")
_EXPECTING = re.compile(r" expecting \{.*$")


class BadExpression(ValueError):
    """It is not taken; `line` and `column` count from 1, `detail` says what is wrong there."""

    def __init__(self, line: int, column: int, detail: str) -> None:
        super().__init__(f"line {line}, column {column}: {detail}")
        self.line = line
        self.column = column
        self.detail = detail

    def field_error(self, field: str) -> FieldError:
        return FieldError(field, str(self))


class Expression:
    """`variables` are those it mentions: `matches` needs a mapping of these, and no others."""

    __slots__ = ("_fields", "_program", "_tokens", "errors", "first_error", "text", "variables")

    def __init__(self, text: str, variables: Collection[str]) -> None:
        self.text = text
        self._program = _compiled(text)
        self._tokens = scan(text)
        try:
            bounds.check(self._tokens, variables)
        except Refused as refused:
            raise BadExpression(*_place(text, refused.at), refused.detail) from refused
        mentioned = set(self._program.variables())
        self.variables = tuple(name for name in variables if name in mentioned)
        self._fields = {name: fields_of(name, self._tokens) for name in self.variables}
        self.errors = 0
        """How many evaluations failed or gave no boolean."""
        self.first_error: str | None = None

    def fields(self, variable: str) -> frozenset[str] | None:
        """Which members of a map it looks at; None: perhaps all."""
        return self._fields[variable]

    def conjunction(self) -> Conjunction:
        return split(self.text, self._tokens)

    def matches(self, variables: Mapping[str, object]) -> bool:
        try:
            result = self._program.execute(dict(variables))
        except Exception as error:
            self._failed(_reason(error))
            return False
        if result is True:
            return True
        if result is not False:
            self._failed(f"it gives {type(result).__name__}, not a boolean")
        return False

    def _failed(self, reason: str) -> None:
        self.errors += 1
        if self.first_error is None:
            self.first_error = reason[:MAX_ERROR_CHARS]


def compile_expression(text: str, variables: Collection[str] = MESSAGE_VARIABLES) -> Expression:
    """Raises BadExpression, which says where."""
    if len(text) > MAX_CHARS:
        raise BadExpression(*_place(text, MAX_CHARS), f"over {MAX_CHARS} characters")
    if "\0" in text:
        raise BadExpression(*_place(text, text.index("\0")), "a NUL character; write it as \\x00")
    return Expression(text, variables)


def _compiled(text: str) -> cel.Program:
    try:
        text.encode()
        return cel.compile(text)
    except ValueError as error:
        found = _ERROR.search(str(error))
        if found is None:
            raise BadExpression(1, 1, "not an expression, or nested too deeply") from error
        detail = _EXPECTING.sub("", found[3])
        if "Recursion limit" in detail:
            detail = "nested too deeply"
        elif "ExprContext" in detail:
            detail = "not complete"
        raise BadExpression(int(found[1]), int(found[2]), detail) from error


def _place(text: str, at: int) -> tuple[int, int]:
    before = text[:at]
    return before.count("\n") + 1, at - before.rfind("\n")


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"there is no {error.args[0]}" if error.args else "a key is not there"
    return str(error)
