"""No field's type, limit or default is declared by hand twice: the contract in openapi/ says it.

The lists name the modules that are not converted yet. They only shrink: a module that is on a list
without need fails the test too.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache

import pytest

from tests.parts import ROOT

SERVERS = (
    "auth",
    "edge",
    "gateway",
    "publish_forwarder",
    "quotas",
    "scheduler",
    "subscribe_forwarder",
)
MODELS = "sdk/python/packetboat/models"
GENERATED = "# Generated from openapi/"

BODIES = {
    "subscribe_forwarder/api/letter_bodies.py",
    "subscribe_forwarder/api/push_bodies.py",
    "subscribe_forwarder/api/requests.py",
}
"""Modules that declare bodies of requests instead of reading them into the contract's classes."""
VIEWS: set[str] = set()
"""Modules that write answers as dictionaries instead of with the contract's classes."""
QUERIES = {
    "subscribe_forwarder/api/letter_bodies.py",
    "subscribe_forwarder/api/push_bodies.py",
    "subscribe_forwarder/api/replay_query.py",
    "subscribe_forwarder/api/requests.py",
    "subscribe_forwarder/backlogs/routes.py",
}
"""Modules that read a query without the limits of the contract's parameters."""
WRITTEN_MODELS = {
    "export_runs.py",
    "exports.py",
    "schedules.py",
}
"""Modules of the SDK's models that are written by hand."""
NO_MODELS = {
    "__init__.py",
    "data.py",
    "methods.py",
    "page.py",
    "results.py",
    "task_results.py",
}
"""Modules whose classes are no classes of the contract."""


def declares_a_body(node: ast.AST) -> bool:
    """Return whether a node is a class that refuses unknown fields, as bodies of requests do."""
    return isinstance(node, ast.ClassDef) and any(
        each.arg == "forbid_unknown_fields" for each in node.keywords
    )


def writes_a_dictionary(node: ast.AST) -> bool:
    """Return whether a node is a view that returns a dictionary."""
    return (
        isinstance(node, ast.FunctionDef)
        and (node.name == "view" or node.name.endswith("_view"))
        and not node.name.startswith("_")
        and node.returns is not None
        and ast.unparse(node.returns).startswith(("dict[", "list[dict["))
    )


def parses_a_query(node: ast.AST) -> bool:
    """Return whether a node imports the parser of queries."""
    return isinstance(node, ast.ImportFrom) and any(each.name == "parse_qs" for each in node.names)


RULES: dict[str, tuple[Callable[[ast.AST], bool], set[str]]] = {
    "bodies": (declares_a_body, BODIES),
    "views": (writes_a_dictionary, VIEWS),
    "queries": (parses_a_query, QUERIES | {"edge/parameters.py"}),
}


@cache
def found() -> dict[str, set[str]]:
    """Return the modules of servers that each rule finds, in one walk through their sources."""
    named: dict[str, set[str]] = {rule: set() for rule in RULES}
    for path, tree in trees():
        for node in ast.walk(tree):
            for rule, (matches, _) in RULES.items():
                if matches(node):
                    named[rule].add(path)
    return named


def trees() -> Iterator[tuple[str, ast.Module]]:
    for part in SERVERS:
        for path in sorted((ROOT / part).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("rule", RULES)
def test_servers_take_fields_and_limits_from_the_contract(rule: str) -> None:
    listed = RULES[rule][1]
    assert found()[rule] - listed == set(), "use the contract's classes: docs/decisions/contract.md"
    assert listed - found()[rule] == set(), "take what is converted off the list of this test"


def test_models_of_the_sdk_are_generated_from_the_contract() -> None:
    written = {
        path.name
        for path in (ROOT / MODELS).glob("*.py")
        if not path.read_text(encoding="utf-8").startswith(GENERATED)
    }
    assert written - WRITTEN_MODELS - NO_MODELS == set(), "openapi/sdk/models.py generates models"
    assert WRITTEN_MODELS - written == set(), "take what is generated off the list of this test"


@pytest.mark.parametrize(
    ("matches", "text"),
    [
        (declares_a_body, "class Made(msgspec.Struct, forbid_unknown_fields=True): size: int"),
        (writes_a_dictionary, "def job_view(job: Job) -> dict[str, object]: ..."),
        (parses_a_query, "from urllib.parse import parse_qs"),
    ],
)
def test_the_rules_see_what_they_are_about(matches: Callable[[ast.AST], bool], text: str) -> None:
    assert any(map(matches, ast.walk(ast.parse(text))))
