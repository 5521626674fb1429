"""metadata/database.py declares each method that works on rows of all tenants, with the reason."""

from __future__ import annotations

import ast
import re

from metadata import database
from tests.parts import ROOT
from tests.tidy.sources import modules

DECLARED = re.compile(r"^    ([\w/]+): ([\w, ]+); \w.+$", re.MULTILINE)


def declared() -> set[tuple[str, str]]:
    return {
        (f"metadata/{module}.py", method)
        for module, methods in DECLARED.findall(database.__doc__ or "")
        for method in methods.split(", ")
    }


def uses() -> set[tuple[str, str]]:
    """Return (module, method) of each call on a database itself, not on `of` or `platform`
    of it.
    """
    # The method of a function within another is the outer one; both are found.
    return {
        (module.name, function.name)
        for module in modules()
        if module.name != "metadata/database.py"
        for line in module.raw_uses
        for function in module.functions_around(line)
    }


def test_raw_statements_are_declared_with_their_reason() -> None:
    """Write `database.of(tenant_id).statement(…)`, or declare why all tenants are meant."""
    assert uses() - declared() == set()


def test_what_is_declared_is_there() -> None:
    assert declared() - uses() == set()
    assert len(declared()) > 40


def test_the_scheduler_has_no_database_but_the_fenced_one() -> None:
    """Make repositories of `self._database`: what they write is under the fence of the lock."""
    tree = ast.parse((ROOT / "scheduler/service.py").read_text(encoding="utf-8"))
    made_of_it = {
        call.func.id
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        for argument in call.args
        if isinstance(argument, ast.Name) and argument.id == "database"
    }
    assert made_of_it == {"FencedDatabase", "LockRepository"}
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    assert names.count("database") == len(made_of_it)
