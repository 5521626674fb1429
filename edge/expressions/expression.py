"""A compiled expression; an evaluation that fails, or gives no boolean, is no match."""

from __future__ import annotations

import re
import sys
from collections import OrderedDict
from collections.abc import Collection, Generator, Iterator, Mapping
from functools import lru_cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from edge.expressions import boolean, bounds
from edge.expressions.bounds import ExpressionRefused
from edge.expressions.conjunction import Conjunction, fields_of, split
from edge.expressions.price import Price, price_of
from edge.expressions.tokens import Kind, NotRead, Token, rendered, scan
from edge.problem import FieldError
from openapi.common import MAX_FILTER_CHARS

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
"""Variables that filters and skip rules may use; `data` is the parsed JSON body or null."""
MAX_ERROR_CHARS = 200
MAX_TOKENS = 2000
"""Tokens of a new expression at most; ten of them take a tenth of a millisecond to compile."""
MAX_READINGS = 512
"""Compiled texts that are kept; a filter is compiled when it is created, and again when it is
used.
"""
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
    """The expression is refused; `line` and `column` count from 1, `detail` says what is wrong
    there.
    """

    def __init__(self, line: int, column: int, detail: str) -> None:
        super().__init__(f"line {line}, column {column}: {detail}")
        self.line = line
        self.column = column
        self.detail = detail

    def field_error(self, field: str) -> FieldError:
        return FieldError(field, str(self))


class _Reading(NamedTuple):
    """The results of compiling a text, which all expressions of the same text share."""

    program: cel.Program
    price: Price
    variables: tuple[str, ...]
    fields: Mapping[str, frozenset[str] | None]
    conjunction: Conjunction
    no_boolean: ExpressionRefused | None
    """Reason why it certainly gives no boolean, if it does not."""


class Expression:
    """An expression; `matches` needs a mapping of exactly the `variables` that it mentions."""

    __slots__ = ("_program", "_reading", "errors", "first_error", "price", "text", "variables")

    def __init__(self, text: str, variables: Collection[str]) -> None:
        self.text = text
        reading = _read(text, tuple(variables))
        if isinstance(reading, BadExpression):
            raise BadExpression(reading.line, reading.column, reading.detail)
        self._reading = reading
        self._program = self._reading.program
        self.price = self._reading.price
        self.variables = self._reading.variables
        self.errors = 0
        """Number of evaluations that failed or gave no boolean."""
        self.first_error: str | None = None

    def check_boolean(self) -> None:
        """Check that it can give a boolean. Raises BadExpression if it certainly gives none."""
        refused = self._reading.no_boolean
        if refused is not None:
            raise BadExpression(*_place(self.text, refused.at), refused.detail)

    def fields(self, variable: str) -> frozenset[str] | None:
        """Return the members of a map that it looks at; None if it may be all of them."""
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
        """Record an evaluation that failed or gave no boolean; the first reason is kept."""
        self.errors += 1
        if self.first_error is None:
            self.first_error = reason[:MAX_ERROR_CHARS]


def compile_expression(text: str, variables: Collection[str] = MESSAGE_VARIABLES) -> Expression:
    """Compile an expression.

    Raises BadExpression, which says where the fault is.

    A text that was compiled a while ago costs nothing.
    """
    _check_characters(text)
    return Expression(text, variables)


def _check_characters(text: str) -> None:
    """Raise BadExpression for a text that is not even read."""
    if len(text) > MAX_FILTER_CHARS:
        raise BadExpression(*_place(text, MAX_FILTER_CHARS), f"over {MAX_FILTER_CHARS} characters")
    if "\0" in text:
        raise BadExpression(*_place(text, text.index("\0")), "a NUL character; write it as \\x00")


def compile_filter(text: str, variables: Collection[str] = MESSAGE_VARIABLES) -> Expression:
    """Compile a new filter.

    Raises BadExpression.

    Stored filters are compiled by `compile_expression`, and are no match if they give no boolean.
    With at most `MAX_TOKENS` this takes less than 50 ms.
    """
    if MAX_TOKENS < len(text) <= MAX_FILTER_CHARS and (at := _beyond(text)) is not None:
        raise BadExpression(*_place(text, at), f"over {MAX_TOKENS} names, literals and operators")
    expression = compile_expression(text, variables)
    expression.check_boolean()
    return expression


_readings: OrderedDict[tuple[str, tuple[str, ...]], _Reading | BadExpression] = OrderedDict()
"""The texts read last; an error too is kept, because the same text is often sent again."""


def is_read(text: str, variables: tuple[str, ...]) -> bool:
    """Return whether a text was read a while ago, so that compiling it costs nothing."""
    return (text, variables) in _readings


def read_in_pieces(text: str, variables: tuple[str, ...]) -> Iterator[None]:
    """Read a new filter; yield between pieces, none of which takes more than some milliseconds.

    A text that `compile_filter` refuses unread is not read here either.
    """
    try:
        _check_characters(text)
    except BadExpression:
        return
    if _beyond(text) is None:
        yield
        yield from _reading(text, variables)


def _read(text: str, variables: tuple[str, ...]) -> _Reading | BadExpression:
    """Return the results of a text, which is read now if it was not read a while ago."""
    known = _readings.get((text, variables))
    if known is None:
        for _ in _reading(text, variables):
            pass
        known = _readings[text, variables]
    _readings.move_to_end((text, variables))
    return known


def _reading(text: str, variables: tuple[str, ...]) -> Iterator[None]:
    """Read a text and keep what is known of it; yield between the pieces of the work."""
    found: _Reading | BadExpression
    try:
        found = yield from _compiled_and_checked(text, variables)
    except BadExpression as error:
        found = error.with_traceback(None)
    _readings[text, variables] = found
    if len(_readings) > MAX_READINGS:
        _readings.popitem(last=False)


_scanned = lru_cache(1)(scan)
"""A new text is scanned when its tokens are counted, and used again when it is compiled."""


@lru_cache(MAX_READINGS)
def _beyond(text: str) -> int | None:
    """Return where the first token after `MAX_TOKENS` begins; None if there are no more.

    It is kept: a text of 4,000 tokens that was sent again and again was scanned each time.
    """
    tokens = _scanned(text)
    return tokens[MAX_TOKENS].at if len(tokens) > MAX_TOKENS else None


def _compiled_and_checked(text: str, variables: tuple[str, ...]) -> Generator[None, None, _Reading]:
    """Return what is known of a text; yield between the pieces of the work.

    Raises BadExpression.
    """
    tokens = _scanned(text)
    yield
    program = _compiled(text, tokens)
    yield
    try:
        bounds.check(tokens, variables)
    except ExpressionRefused as refused:
        raise BadExpression(*_place(text, refused.at), refused.detail) from refused
    yield
    mentioned = set(program.variables())
    names = tuple(name for name in variables if name in mentioned)
    fields = {name: fields_of(name, tokens) for name in names}
    yield
    no_boolean = None
    try:
        boolean.check_boolean(tokens)
    except ExpressionRefused as refused:
        no_boolean = refused.with_traceback(None)
    yield
    price = price_of(tokens, variables)
    yield
    return _Reading(program, price, names, fields, split(text, tokens), no_boolean)


def _compiled(text: str, tokens: list[Token]) -> cel.Program:
    """Compile the tokens; if the engine refuses them, compile the text itself to find the place.

    Raises BadExpression.
    """
    try:
        text.encode()
        return _program(rendered(tokens))
    except NotRead as error:
        # Do not ask the engine: it takes a tenth of a second to report a text of such characters.
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
    """Import the engine's extension module alone, which takes hundredths of a second.

    Its package imports a command line too, which took a second of the event loop when the first
    filter came.
    """
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
    """Raise BadExpression if the engine refuses the text."""
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
    """Return an error in words of this project for an error of the engine's parser."""
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
