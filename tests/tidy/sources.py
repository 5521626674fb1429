"""The facts about each module that the rules ask for, found in one walk through its syntax tree.

The trees of all modules are two million objects: a tree is gone once it was walked.
"""

from __future__ import annotations

import ast
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.parts import ROOT

PARTS = (
    "appending",
    "auth",
    "cron",
    "edge",
    "gateway",
    "metadata",
    "openapi",
    "outbox",
    "peering",
    "positions",
    "publish_forwarder",
    "scheduler",
    "schemas",
    "sdk",
    "spark_exports",
    "store_nodes",
    "subscribe_forwarder",
)
RAW = {"statement", "transaction"}
"""Methods of a database that work on rows of all tenants."""


class Function(NamedTuple):
    name: str
    first: int
    last: int

    @property
    def lines(self) -> int:
        return self.last - self.first + 1


class Call(NamedTuple):
    """A call of a plain name, or of one of a class; of its arguments, the texts: None stands for
    anything else."""

    name: str
    texts: tuple[str | None, ...]


class Module(NamedTuple):
    path: Path
    documented: bool
    has_code: bool
    """Whether it has more than expressions at its top, such as its docstring."""
    imported: frozenset[str]
    """The imported modules; for `from module import name` also `module.name`, which may be
    a module.
    """
    functions: tuple[Function, ...]
    """Functions of the module, also those within classes and other functions."""
    calls: tuple[Call, ...]
    raw_uses: tuple[int, ...]
    """Lines that use one of the methods RAW of a database."""
    formatted: tuple[tuple[int, str], ...]
    """The line and the fixed text of each formatted text."""
    swallowing: tuple[int, ...]
    """Lines of handlers that catch everything and raise nothing."""

    @property
    def name(self) -> str:
        return name(self.path)

    def functions_around(self, line: int) -> Iterator[Function]:
        return (function for function in self.functions if function.first <= line <= function.last)


@cache
def tracked() -> tuple[Path, ...]:
    """Return the files of the repository as git sees them, also those not committed yet."""
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout: nothing lists the files")
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "-co", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return tuple(ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file())


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def paths(*parts: str) -> tuple[Path, ...]:
    """Return the modules of the product, or of these parts of the repository."""
    tops = {ROOT / part for part in parts or PARTS}
    return tuple(
        path for path in tracked() if path.suffix == ".py" and not tops.isdisjoint(path.parents)
    )


def modules(*parts: str) -> list[Module]:
    return [module(path) for path in paths(*parts)]


@cache
def module(path: Path) -> Module:
    tree = ast.parse(text(path))
    kinds = _by_kind(tree)
    imported: set[str] = set()
    for plain in kinds[ast.Import]:
        imported |= {alias.name for alias in plain.names}
    for of in kinds[ast.ImportFrom]:
        if of.module:
            imported |= {of.module, *(f"{of.module}.{alias.name}" for alias in of.names)}
    return Module(
        path,
        documented=bool(ast.get_docstring(tree)),
        has_code=any(not isinstance(node, ast.Expr) for node in tree.body),
        imported=frozenset(imported),
        functions=tuple(
            Function(one.name, one.lineno, one.end_lineno or 0)
            for one in (*kinds[ast.FunctionDef], *kinds[ast.AsyncFunctionDef])
        ),
        calls=tuple(
            Call(called, tuple(map(_text_of, call.args)))
            for call in kinds[ast.Call]
            if (called := _called(call.func))
        ),
        raw_uses=tuple(
            one.lineno
            for one in kinds[ast.Attribute]
            if one.attr in RAW and _name_of(one.value).endswith("database")
        ),
        formatted=tuple((one.lineno, _fixed_in(one)) for one in kinds[ast.JoinedStr]),
        swallowing=tuple(
            one.lineno
            for one in kinds[ast.ExceptHandler]
            if _is_broad(one) and not any(isinstance(each, ast.Raise) for each in ast.walk(one))
        ),
    )


def _by_kind(tree: ast.Module) -> Mapping[type[ast.AST], list[Any]]:
    """Return all nodes below a tree. (`ast.walk` takes twice as long.)"""
    kinds: dict[type[ast.AST], list[Any]] = defaultdict(list)
    nodes: list[ast.AST] = [tree]
    for node in nodes:
        kinds[type(node)].append(node)
        for value in node.__dict__.values():
            if isinstance(value, ast.AST):
                nodes.append(value)
            elif isinstance(value, list):
                nodes += [each for each in value if isinstance(each, ast.AST)]
    return kinds


def _called(function: ast.expr) -> str | None:
    """Return `name` or `Class.name`; None for a call of anything else."""
    if isinstance(function, ast.Name):
        return function.id
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        of = function.value.id
        return f"{of}.{function.attr}" if of[:1].isupper() else None
    return None


def _text_of(argument: ast.expr) -> str | None:
    value = argument.value if isinstance(argument, ast.Constant) else None
    return value if isinstance(value, str) else None


def _name_of(node: ast.expr) -> str:
    """Return the last name of `a` or `a.b`; nothing of anything else."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _fixed_in(formatted: ast.JoinedStr) -> str:
    return "".join(part.value for part in formatted.values if isinstance(part, ast.Constant))


def _is_broad(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or (
        isinstance(handler.type, ast.Name) and handler.type.id in ("Exception", "BaseException")
    )
