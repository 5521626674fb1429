"""One compiled expression. An evaluation that fails, or gives no boolean, is no match."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping
from functools import lru_cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from edge.expressions import boolean, bounds
from edge.expressions.bounds import MAX_CHARS, Refused
from edge.expressions.conjunction import Conjunction, fields_of, split
from edge.expressions.price import Price, price_of
from edge.expressions.tokens import Kind, NotRead, Token, rendered, scan
from edge.problem import FieldError

if TYPE_CHECKING:
    import cel

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
MAX_TOKENS = 2000
"""Of a new expression: compiling one takes a tenth of a millisecond for each ten of them."""
MAX_READINGS = 512
"""That are kept: a filter is read when it is taken, and again to be used."""
_ERROR = re.compile(r"ERROR: <input>:(\d+):(\d+): (?:Syntax error: )?([^\n]*)")
_TOKEN = re.compile(r"(?:input|at:) '(.+?)'$", re.DOTALL)
_NO_TEXT = "a text that does not end, or has an escape that there is not"
_ENDS = re.compile(r"(?:input|at) '<EOF>'")
_EXPECTING = re.compile(r" expecting (?:\{.*|<EOF>)$")


_FUNCTION = re.compile(r"^Function '([A-Za-z_]+)'")
_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (ZeroDivisionError, "it divides by zero"),
    (OverflowError, "a number is out of range"),
    (IndexError, "a list has no element of that number"),
    (
        TypeError,
        "an operation has values of types that do not go together: int(x), double(x) and string(x) "
        "convert",
    ),
)


class BadExpression(ValueError):
    """It is not taken; `line` and `column` count from 1, `detail` says what is wrong there."""

    def __init__(self, line: int, column: int, detail: str) -> None:
        super().__init__(f"line {line}, column {column}: {detail}")
        self.line = line
        self.column = column
        self.detail = detail

    def field_error(self, field: str) -> FieldError:
        return FieldError(field, str(self))


class _Reading(NamedTuple):
    """What was found in a text: as much as all who use it share."""

    program: cel.Program
    price: Price
    variables: tuple[str, ...]
    fields: Mapping[str, frozenset[str] | None]
    conjunction: Conjunction
    no_boolean: Refused | None
    """Why it certainly gives none."""


class Expression:
    """`variables` are those it mentions: `matches` needs a mapping of these, and no others."""

    __slots__ = ("_program", "_reading", "errors", "first_error", "price", "text", "variables")

    def __init__(self, text: str, variables: Collection[str]) -> None:
        self.text = text
        self._reading = _read(text, tuple(variables))
        self._program = self._reading.program
        self.price = self._reading.price
        self.variables = self._reading.variables
        self.errors = 0
        """How many evaluations failed or gave no boolean."""
        self.first_error: str | None = None

    def check_boolean(self) -> None:
        """Raises BadExpression where it certainly gives no boolean."""
        refused = self._reading.no_boolean
        if refused is not None:
            raise BadExpression(*_place(self.text, refused.at), refused.detail)

    def fields(self, variable: str) -> frozenset[str] | None:
        """Which members of a map it looks at; None: perhaps all."""
        return self._reading.fields[variable]

    def conjunction(self) -> Conjunction:
        return self._reading.conjunction

    def matches(self, variables: Mapping[str, object]) -> bool:
        try:
            result = self._program.execute(dict(variables))
        except Exception as error:
            self.failed(_reason(error))
            return False
        if result is True:
            return True
        if result is not False:
            self.failed(f"it gives {type(result).__name__}, not a boolean")
        return False

    def failed(self, reason: str) -> None:
        """It was not evaluated, or not to a boolean."""
        self.errors += 1
        if self.first_error is None:
            self.first_error = reason[:MAX_ERROR_CHARS]


def compile_expression(text: str, variables: Collection[str] = MESSAGE_VARIABLES) -> Expression:
    """Raises BadExpression, which says where. One that was compiled a while ago costs nothing."""
    if len(text) > MAX_CHARS:
        raise BadExpression(*_place(text, MAX_CHARS), f"over {MAX_CHARS} characters")
    if "\0" in text:
        raise BadExpression(*_place(text, text.index("\0")), "a NUL character; write it as \\x00")
    return Expression(text, variables)


def compile_filter(text: str, variables: Collection[str] = MESSAGE_VARIABLES) -> Expression:
    """As a new filter is taken. What was stored before is compiled by `compile_expression`, and is
    no match where it gives no boolean. With at most `MAX_TOKENS` this takes less than
    50 ms."""
    if MAX_TOKENS < len(text) <= MAX_CHARS:
        tokens = scan(text)
        if len(tokens) > MAX_TOKENS:
            place = _place(text, tokens[MAX_TOKENS].at)
            raise BadExpression(*place, f"over {MAX_TOKENS} names, literals and operators")
    expression = compile_expression(text, variables)
    expression.check_boolean()
    return expression


@lru_cache(MAX_READINGS)
def _read(text: str, variables: tuple[str, ...]) -> _Reading:
    tokens = scan(text)
    program = _compiled(text, tokens)
    try:
        bounds.check(tokens, variables)
    except Refused as refused:
        raise BadExpression(*_place(text, refused.at), refused.detail) from refused
    mentioned = set(program.variables())
    names = tuple(name for name in variables if name in mentioned)
    fields = {name: fields_of(name, tokens) for name in names}
    no_boolean = None
    try:
        boolean.check_boolean(tokens)
    except Refused as refused:
        no_boolean = refused.with_traceback(None)
    price = price_of(tokens, variables)
    return _Reading(program, price, names, fields, split(text, tokens), no_boolean)


def _compiled(text: str, tokens: list[Token]) -> cel.Program:
    """Of what was read. What the engine does not take is compiled as it was written, to say where
    it is wrong."""
    try:
        text.encode()
        return _program(rendered(tokens))
    except NotRead as error:
        # Not by the engine: what it says of a text of such characters takes it a tenth of a second.
        token = next(token for token in tokens if token.at == error.at)
        quoted = token.kind is Kind.STRING or token.text in "\"'"
        detail = _NO_TEXT if quoted else f"'{token.text}' does not belong here"
        raise BadExpression(*_place(text, error.at), detail) from error
    except ValueError as error:
        _refuse(text)
        raise BadExpression(*_place(text, 0), "this cannot be read") from error


def _program(text: str) -> cel.Program:
    program: cel.Program = _engine().compile(text)
    return program


@lru_cache(1)
def _engine() -> ModuleType:
    """The extension module of the engine alone, in hundredths of a second: its package imports a
    command line too, which took a second of the event loop when the first filter came."""
    name = "cel.cel"
    if name not in sys.modules:
        package = find_spec("cel")
        assert package is not None, "the engine is not installed"
        spec = PathFinder.find_spec(name, package.submodule_search_locations)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def _refuse(text: str) -> None:
    """Raises BadExpression where the engine does not take it."""
    try:
        text.encode()
        _engine().compile(text)
    except ValueError as error:
        found = _ERROR.search(str(error))
        if found is None:
            raise BadExpression(1, 1, "not an expression, or nested too deeply") from error
        detail = _EXPECTING.sub("", found[3])
        raise BadExpression(int(found[1]), int(found[2]), _own_words(detail)) from error


def _own_words(detail: str) -> str:
    """What is wrong at a place, for what the engine's parser says of it."""
    if "Recursion limit" in detail:
        return "nested too deeply"
    if "ExprContext" in detail or _ENDS.search(detail):
        return "not complete"
    if "int literal" in detail:
        return "a number that is out of range"
    token = _TOKEN.search(detail)
    if token is None:
        return "this is no expression"
    if token[1][:1] in "\"'":
        return _NO_TEXT
    return f"'{token[1][:64]}' does not belong here"


def _place(text: str, at: int) -> tuple[int, int]:
    before = text[:at]
    return before.count("\n") + 1, at - before.rfind("\n")


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"there is no {error.args[0]}" if error.args else "a key is not there"
    function = _FUNCTION.search(str(error))
    if function is not None:
        return f"{function[1]} cannot take the value it is given"
    for kind, words in _REASONS:
        if isinstance(error, kind):
            return words
    return "it cannot be evaluated"
