"""The tokens of an expression, and the text that is made of them for the engine.

The engine does not show its syntax tree, so an expression is checked by these tokens. That is right
only if both split the text in the same way. Therefore the engine never gets the text of a tenant:
it compiles the text that `rendered` makes of the tokens, in which every string is written anew,
without a character that could end or continue it. If the two would read the text differently, the
engine gets the reading that was checked.
"""

from __future__ import annotations

import enum
import re
from typing import NamedTuple

_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


class Kind(enum.Enum):
    NAME = "name"
    STRING = "string"
    OTHER = "other"


class Token(NamedTuple):
    """A token that begins at `at` in the text, with `depth` brackets open around it."""

    kind: Kind
    text: str
    at: int
    depth: int

    @property
    def end(self) -> int:
        return self.at + len(self.text)

    def is_(self, text: str) -> bool:
        """Return whether it is a certain operator, bracket or name."""
        return self.kind is not Kind.STRING and self.text == text


_PATTERN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
  | (?P<string>[rRbB]{0,2}(?:\"\"\"(?:\\.|.)*?\"\"\"|'''(?:\\.|.)*?'''))
  | (?P<raw>[bB]?[rR][bB]?(?:"[^"\n]*"|'[^'\n]*'))
  | (?P<plain>[bB]?(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<other>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?[uU]?|&&|\|\||[=!<>]=|.)
    """,
    re.VERBOSE | re.DOTALL,
)


def scan(text: str) -> list[Token]:
    """Return the tokens of a text, without spaces and comments."""
    tokens: list[Token] = []
    depth = 0
    for found in _PATTERN.finditer(text):
        group, word = found.lastgroup, found[0]
        if group == "other":
            if word in _CLOSING:
                depth -= 1
            tokens.append(Token(Kind.OTHER, word, found.start(), depth))
            if word in _OPENING:
                depth += 1
        elif group != "space":
            kind = Kind.NAME if group == "name" else Kind.STRING
            tokens.append(Token(kind, word, found.start(), depth))
    return tokens


_OPERATORS = frozenset(
    {"(", ")", "[", "]", "{", "}", ".", ",", "?", ":", "+", "-", "*", "/", "%", "!", "<", ">"}
    | {"<=", ">=", "==", "!=", "&&", "||"}
)
_ESCAPE = re.compile(
    r"\\(?:[xX]([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-3][0-7]{2})|(.))", re.DOTALL
)
_ESCAPED = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True)) | {each: each for each in "\\?\"'`"}
_PLAIN = re.compile(r"[A-Za-z0-9 _.,:;/()\[\]{}<>=+*@#%^$|&~!-]")
_LAST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


class NotRead(ValueError):
    """The text has something at `at` that is no token, or a literal that the engine does not
    accept.
    """

    def __init__(self, at: int) -> None:
        super().__init__(f"at {at}")
        self.at = at


def rendered(tokens: list[Token]) -> str:
    """Return the same expression as text for the engine. Raises NotRead."""
    parts: list[str] = []
    end = 0
    for token in tokens:
        if token.kind is Kind.STRING:
            parts += " ", _written(token), " "
        elif token.kind is Kind.NAME or token.text[0].isdigit() or token.text in _OPERATORS:
            parts += "" if token.at == end else " ", token.text
        else:
            raise NotRead(token.at)
        end = token.end
    return "".join(parts)


def string_of(token: Token) -> str | None:
    """Return the value of a string literal; None for bytes."""
    value = _value(token)
    return value if isinstance(value, str) else None


def _written(token: Token) -> str:
    value = _value(token)
    if isinstance(value, bytes):
        return 'b"' + "".join(f"\\x{byte:02x}" for byte in value) + '"'
    return '"' + "".join(c if _PLAIN.match(c) else f"\\U{ord(c):08x}" for c in value) + '"'


def _value(token: Token) -> str | bytes:
    """Return the value of a literal of a string or bytes.

    Raises NotRead for an escape that does not exist.
    """
    at = next(index for index, char in enumerate(token.text) if char in "\"'")
    prefix, quoted = token.text[:at].lower(), token.text[at:]
    width = 3 if len(quoted) >= 6 and quoted[:3] in ('"""', "'''") else 1
    inner, is_bytes = quoted[width:-width], "b" in prefix
    if prefix == "rb" or (width == 1 and "\r" in inner):
        raise NotRead(token.at)  # as in the engine's grammar
    inner = inner.replace("\r\n", "\n").replace("\r", "\n")
    if "r" in prefix:
        return inner.encode() if is_bytes else inner
    parts: list[str] = []
    raw = bytearray()
    end = 0

    def add(text: str) -> None:
        if is_bytes:
            raw.extend(text.encode())
        else:
            parts.append(text)

    for found in _ESCAPE.finditer(inner):
        add(inner[end : found.start()])
        end = found.end()
        two, four, eight, octal, other = found.groups()
        if other is not None:
            if other not in _ESCAPED:
                raise NotRead(token.at)
            add(_ESCAPED[other])
            continue
        code = int(octal, 8) if octal else int(two or four or eight, 16)
        if is_bytes and (two or octal):
            raw.append(code)
        elif code > _LAST or code in _SURROGATES or is_bytes:
            raise NotRead(token.at)
        else:
            add(chr(code))
    add(inner[end:])
    return bytes(raw) if is_bytes else "".join(parts)


def closing(tokens: list[Token], opening: int) -> int:
    """Return the index of the bracket that closes the one at `opening`."""
    depth = tokens[opening].depth
    for index in range(opening + 1, len(tokens)):
        token = tokens[index]
        if token.depth == depth and token.kind is Kind.OTHER and token.text in _CLOSING:
            return index
    return len(tokens) - 1


class Operands:
    """The expression as operands of its operators.

    Each operand is a list of indices: its tokens outside of brackets, and the brackets. However
    deep they are nested, each token is looked at only once for all of them together.
    """

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._ends: dict[int, int] = {}
        open_at: list[int] = []
        for index, token in enumerate(tokens):
            if token.kind is Kind.OTHER and token.text in _OPENING:
                open_at.append(index)
            elif token.kind is Kind.OTHER and token.text in _CLOSING and open_at:
                self._ends[open_at.pop()] = index

    def whole(self) -> list[int]:
        return self._between(0, len(self._tokens))

    def tokens(self, operand: list[int]) -> list[Token]:
        """Return all tokens of an operand, including those in brackets."""
        return self._tokens[operand[0] : operand[-1] + 1]

    def bare(self, operand: list[int]) -> list[int]:
        """Return the operand without brackets around all of it."""
        while len(operand) == 2 and self._tokens[operand[0]].is_("("):
            operand = self._between(operand[0] + 1, operand[1])
        return operand

    def find(self, operand: list[int], *texts: str, start: int = 1) -> int | None:
        """Return the place in `operand`, from `start` on, of the first of these operators."""
        for place in range(start, len(operand)):
            index = operand[place]
            token = self._tokens[index]
            is_one = token.kind is not Kind.STRING and token.text in texts
            # After a dot it is the name of a member.
            if is_one and not self._tokens[index - 1].is_("."):
                return place
        return None

    def split(self, operand: list[int], operator: str) -> list[list[int]]:
        """Return the operands of all uses of a binary operator; the operand itself if there is no
        use.
        """
        parts: list[list[int]] = [[]]
        for index in operand:
            if self._tokens[index].is_(operator):
                parts.append([])
            else:
                parts[-1].append(index)
        return parts

    def _between(self, start: int, end: int) -> list[int]:
        found = []
        at = start
        while at < end:
            found.append(at)
            if (closing_at := self._ends.get(at)) is not None:
                found.append(closing_at)
                at = closing_at
            at += 1
        return found
