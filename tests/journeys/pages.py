"""Writes docs/journeys: a page for each journey, with what the code says about each function.

The heads of modules and the docstrings of functions are the text. So a page is as easy to follow
as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "journeys"
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Function(NamedTuple):
    """A function is named by its file, and by the kind of process that calls it."""

    place: str
    file: str
    name: str


def write(name: str, head: str, functions: Sequence[Function]) -> None:
    """Write the page of a journey; the functions are in the order of their first calls."""
    files = {function.file for function in functions}
    lines = [
        f"# {head}: functions and files",
        "",
        f"`make journeys` printed this: {len(functions)} functions in {len(files)} files, in the "
        "order of first calls. The journey itself is in [ARCHITECTURE.md](../../ARCHITECTURE.md).",
    ]
    for place, of_place in groupby(functions, key=lambda one: one.place):
        lines += ["", f"## In the {place}"]
        for file, names in by_file(of_place).items():
            said = sentences(file)
            lines += ["", f"**{file}**: {said['']}", ""]
            lines += [f"- `{each}`{_after_colon(said.get(each, ''))}" for each in names]
    PAGES.mkdir(exist_ok=True)
    (PAGES / f"{name}.md").write_text("\n".join([*lines, ""]), encoding="utf-8")


def by_file(functions: Iterator[Function]) -> dict[str, list[str]]:
    """Return the names of the functions of each file, in the order of first calls."""
    found: dict[str, list[str]] = {}
    for function in functions:
        found.setdefault(function.file, []).append(function.name)
    return found


@cache
def sentences(file: str) -> Mapping[str, str]:
    """Return the first sentence of each docstring of a file by qualified name; "" is the file.

    A function without a docstring has an empty sentence.
    """
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {"": _first_sentence(tree), **dict(_within(tree, ""))}


def _within(parent: ast.AST, prefix: str) -> Iterator[tuple[str, str]]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{prefix}{node.name}"
            yield name, _first_sentence(node)
            yield from _within(node, f"{name}.")
        else:
            yield from _within(node, prefix)


def _first_sentence(node: Documented) -> str:
    paragraph = (ast.get_docstring(node) or "").split("\n\n")[0]
    first, stop, _ = " ".join(paragraph.split()).partition(". ")
    return first + stop.rstrip()


def _after_colon(sentence: str) -> str:
    return f": {sentence}" if sentence else ""
