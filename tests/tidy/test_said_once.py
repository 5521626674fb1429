"""No field's type, limit, default or description is declared by hand twice: openapi/ says it.

The lists name the modules that are not converted yet. They only shrink: a module that is on a list
without need fails the test too.
"""

from __future__ import annotations

import ast
import pkgutil
import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module

import pytest

import openapi
from openapi.areas import OPERATIONS
from openapi.assembly import Document
from openapi.contract import Answer, OpenAnswer
from openapi.reference import HEADER, fields_of
from tests.parts import ROOT

SERVERS = (
    "auth",
    "edge",
    "gateway",
    "positions",
    "publish_forwarder",
    "scheduler",
    "schemas",
    "subscribe_forwarder",
)
NO_ANSWERS = {
    "auth/access_tokens.py": {"iss", "sub"},  # claims
    "auth/signing_keys.py": {"alg"},  # a JWK
    "edge/problem.py": {"type"},  # of every problem; each kind adds members
    "edge/quota.py": {"quota"},  # members that a problem adds
    "gateway/http/connection.py": {"type"},  # an event of ASGI
    "gateway/jobs/payload.py": {"tasks"},  # the data of a message
    "gateway/locks/locks.py": {"holder"},  # members that a problem adds
    "gateway/middleware/errors.py": {"quota"},  # members that a problem adds
    "gateway/oauth/discovery.py": {"keys"},  # JWKs as they are kept
    "gateway/oauth/server.py": {"client_id"},  # credentials of a request
    "gateway/schedules/bodies.py": {"content_type"},  # arguments of the contract's classes
    "gateway/subscriptions/bodies.py": {"type", "min_backoff_seconds"},  # arguments as well
    "gateway/subscriptions/push_bodies.py": {"url", "id"},  # arguments as well
    "gateway/tenancy/auditor.py": {"members"},  # a column of the audit
    "gateway/topics/holds.py": {"holds"},  # a member that a problem adds
    "subscribe_forwarder/api/ack_state.py": {"acked"},  # counts by outcome
    "subscribe_forwarder/api/backlog_stream.py": {"subscriptions"},  # a line of a stream
    "subscribe_forwarder/delivery/reading/arrow.py": {"message_id"},  # columns
}
"""Dictionaries that have the names of an answer's fields and are none, by their first name."""
MODELS = "sdk/python/packetboat/models"
GENERATED = "# Generated from openapi/"

BODIES: set[str] = set()
"""Modules that declare bodies of requests instead of reading them into the contract's classes."""
VIEWS: set[str] = set()
"""Modules that write answers as dictionaries instead of with the contract's classes."""
QUERIES: set[str] = set()
"""Modules that read a query without the limits of the contract's parameters."""
WRITTEN_MODELS: set[str] = set()
"""Modules of the SDK's models that are written by hand."""
NO_MODELS = {"data.py", "results.py", "task_results.py"}
"""Modules whose classes are no classes of the contract."""
COMMANDS = "sdk/python/packetboat/cli/commands"
CHANGING = {"create", "update", "set", "change"}
"""Commands whose options are fields of a request."""
NO_FIELDS = {"if_absent"}
"""Options of such commands that are no fields: the command itself does what they say."""


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


@cache
def answers() -> tuple[frozenset[str], ...]:
    """Return the names of the fields of each answer in the contract."""
    return tuple(
        frozenset(kind.__struct_encode_fields__)
        for module in pkgutil.iter_modules(openapi.__path__, "openapi.")
        for kind in vars(import_module(module.name)).values()
        if isinstance(kind, type) and issubclass(kind, (Answer, OpenAnswer))
    )


def names_an_answer(node: ast.AST) -> str | None:
    """Return the first name of a dictionary that has names of one answer's fields, two at least or
    all of them."""
    if not isinstance(node, ast.Dict):
        return None
    keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
    if len(keys) < sum(key is not None for key in node.keys):
        return None
    names = frozenset(key for key in keys if isinstance(key, str))
    if any(names == fields or (len(names) > 1 and names < fields) for fields in answers() if names):
        return str(keys[0])
    return None


def test_answers_are_classes_of_the_contract() -> None:
    written: dict[str, set[str]] = {}
    for path, tree in trees():
        for node in ast.walk(tree):
            if (name := names_an_answer(node)) is not None:
                written.setdefault(path, set()).add(name)
    new = {path: names - NO_ANSWERS.get(path, set()) for path, names in written.items()}
    gone = {path: names - written.get(path, set()) for path, names in NO_ANSWERS.items()}
    assert not any(new.values()), f"{new}: answer with the classes of openapi/"
    assert not any(gone.values()), f"{gone}: take these off the list of this test"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"acked": 1, "results": []}', "acked"),
        ('{**more, "done": 1, "results": []}', "done"),
        ('{"subscriptions": {}}', "subscriptions"),
        ('{"acked": 1}', None),
        ('{"acked": 1, "colour": []}', None),
        ("{name: 1}", None),
    ],
)
def test_the_rule_of_answers_sees_what_it_is_about(text: str, named: str | None) -> None:
    assert names_an_answer(ast.parse(text, mode="eval").body) == named


RULES: dict[str, tuple[Callable[[ast.AST], bool], set[str]]] = {
    "bodies": (declares_a_body, BODIES),
    "views": (writes_a_dictionary, VIEWS),
    "queries": (parses_a_query, QUERIES | {"edge/parameters.py"}),
}


STORED = ("appending", "cron", "metadata", "outbox", *SERVERS)
"""The parts that may import the contract."""


@cache
def enumerations() -> frozenset[frozenset[str]]:
    """Return the values of each enumeration in the contract that has several."""
    document = Document()
    document.whole()
    return frozenset(
        frozenset(values)
        for values in _enumerations(document.schemas.named)
        if len(values) > 1 and all(isinstance(each, str) for each in values)
    )


def _enumerations(schema: object) -> Iterator[list[str]]:
    if isinstance(schema, dict):
        if isinstance(values := schema.get("enum"), list):
            yield values
        for value in schema.values():
            yield from _enumerations(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _enumerations(value)


def enumerates(node: ast.AST) -> frozenset[str]:
    """Return the values of a class of an enumeration, or of a literal type."""
    values: list[ast.expr] = []
    if isinstance(node, ast.ClassDef) and any("Enum" in ast.unparse(base) for base in node.bases):
        values = [each.value for each in node.body if isinstance(each, ast.Assign)]
    elif isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("Literal"):
        values = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return frozenset(
        each.value
        for each in values
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    )


def test_enumerations_of_the_contract_are_its_own() -> None:
    written: dict[str, set[str]] = {}
    for path, tree in trees(STORED):
        for node in ast.walk(tree):
            if (values := enumerates(node)) in enumerations():
                written.setdefault(path, set()).add(min(values))
    assert written == {}, "import the type from openapi/"


@pytest.mark.parametrize(
    "text",
    [
        "class State(enum.Enum):\n    ACTIVE = 'active'\n    DISABLED = 'disabled'",
        "State = Literal['disabled', 'active']",
        "def of(mode: typing.Literal['consume', 'retain']): ...",
    ],
)
def test_the_rule_of_enumerations_sees_what_it_is_about(text: str) -> None:
    assert any(enumerates(node) in enumerations() for node in ast.walk(ast.parse(text)))


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


def trees(parts: tuple[str, ...] = SERVERS) -> Iterator[tuple[str, ast.Module]]:
    for part in parts:
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
    assert written - WRITTEN_MODELS - NO_MODELS == set(), "openapi/sdk/modules.py has the models"
    assert WRITTEN_MODELS - written == set(), "take what is generated off the list of this test"


def test_options_of_changing_commands_are_generated_from_the_contract() -> None:
    written = {
        path.stem: found
        for path in (ROOT / COMMANDS).glob("*.py")
        if (found := options_written_in(path.read_text(encoding="utf-8")) - NO_FIELDS)
    }
    assert written == {}, "openapi/sdk/flags.py generates options"


def options_written_in(text: str) -> set[str]:
    """Return the parameters of changing commands whose option is described in the module."""
    tree = ast.parse(text)
    aliases = {
        ast.unparse(node.targets[0])
        for node in tree.body
        if isinstance(node, ast.Assign) and "typer.Option(" in ast.unparse(node.value)
    }
    return {
        name
        for name, kind in _options_of(tree)
        if "typer.Option(" in (text := ast.unparse(kind)) or text in aliases
    }


def _options_of(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names and types of options of changing commands, and of `add_set`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and _verbs(node) & CHANGING:
            for each in (*node.args.args, *node.args.kwonlyargs):
                if each.annotation is not None:
                    yield each.arg, each.annotation
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "add_set":
            yield from ((each.arg, each.value) for each in node.keywords if each.arg)


def _verbs(function: ast.FunctionDef) -> set[str]:
    """Return the names under which a function is a command."""
    return {
        str(ast.literal_eval(each.args[1]))
        for each in function.decorator_list
        if isinstance(each, ast.Call) and ast.unparse(each.func) == "add" and len(each.args) > 1
    }


def test_pages_leave_limits_and_defaults_of_fields_to_the_reference() -> None:
    """Guides show how to use fields, and may name them."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    written = {
        str(page.relative_to(ROOT)): rows
        for page in pages
        if (text := page.read_text(encoding="utf-8")) and not text.startswith(HEADER)
        if page.parent.name != "guides" and page.name not in FROM_ELSEWHERE
        if (rows := list(rows_of_fields(text)))
    }
    assert written == {}, "link to docs/reference, which is generated"


FROM_ELSEWHERE = {"terraform-resources.md"}
"""Pages that are generated from another source than the contract."""
_TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
_LIMITED = re.compile(
    r"\bdefaults?\b|\brange\b|\blimits?\b|\bat (most|least) \d|\b\d[\d,.]* (to|or more)\b", re.I
)


def rows_of_fields(text: str) -> Iterator[str]:
    """Yield the rows of tables that say a limit or the default of a field of the contract."""
    for table in _TABLE.findall(text):
        head, *rows = table.splitlines()
        for row in rows:
            first, *others = row.strip("| ").split("|")
            named = {name.rpartition(".")[2] for name in re.findall(r"`([\w.-]+)`", first)}
            if named & field_names() and _LIMITED.search("|".join([head, *others])):
                yield row


@cache
def field_names() -> set[str]:
    """Return the names of all fields and parameters of the contract."""
    document = Document()
    document.whole()
    names = {each.name for row in OPERATIONS.values() for each in row.parameters}
    for schema in document.schemas.named.values():
        names |= {name for name, _, _ in fields_of(schema)}
    return names


def test_the_rule_of_pages_sees_what_it_is_about() -> None:
    text = """
| field | default | meaning |
|---|---|---|
| `ack_deadline_seconds` | 30 | the lease |
| `PACKETBOAT_PORT` | 8080 | the port |

| field | |
|---|---|
| `retry.max_attempts` | 1 to 100 |
| `time_zone` | a name |
| `wait_seconds` | at most 60 |
"""
    seen = [re.findall(r"`(.+?)`", row)[0] for row in rows_of_fields(text)]
    assert seen == ["ack_deadline_seconds", "retry.max_attempts", "wait_seconds"]


PROVIDER = "deploy/terraform/provider/internal"
SENTENCE_WORDS = 4
"""Shorter sentences, such as "It cannot change.", say nothing of one field alone."""


def test_the_provider_takes_descriptions_from_the_contract() -> None:
    copied = {
        str(path.relative_to(ROOT)): found
        for path in (ROOT / PROVIDER).rglob("*.go")
        if not path.name.endswith("_test.go")
        if (found := sentences_written_in(path.read_text(encoding="utf-8")) & described())
    }
    assert copied == {}, "leave the description out: the provider shows that of the contract"


def test_the_rule_of_the_provider_sees_what_it_is_about() -> None:
    text = """
    "paused": {OnlyRead: true, Also: "It cannot change. Whether the clock makes " +
        "no runs of it; \\"a\\"."},
    "filter": {Instead: "An expression."},
    """
    assert sentences_written_in(text) == {"whether the clock makes no runs of it a"}
    assert "whether the clock makes no runs of it" in described()


@cache
def described() -> frozenset[str]:
    """Return the sentences of all descriptions of fields in the contract."""
    document = Document()
    document.whole()
    return frozenset(
        sentence
        for schema in document.schemas.named.values()
        for text in _descriptions(schema)
        for sentence in _sentences(text)
    )


def _descriptions(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(text := schema.get("description"), str):
            yield text
        for value in schema.values():
            yield from _descriptions(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _descriptions(value)


_GO_TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"(?:\s*\+\s*"(?:[^"\\\n]|\\.)*")*')


def sentences_written_in(text: str) -> set[str]:
    """Return the sentences in the string literals of a Go source."""
    return {
        sentence
        for literal in _GO_TEXT.findall(text)
        for sentence in _sentences("".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', literal)))
    }


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text, each as its words in small letters."""
    for sentence in re.split(r"(?<=[.!?])\s+", text):
        words = re.findall(r"\w+", sentence.lower())
        if len(words) >= SENTENCE_WORDS:
            yield " ".join(words)


def test_the_rule_of_options_sees_what_it_is_about() -> None:
    text = """
Size = Annotated[int, typer.Option(help="The size.")]
@add(app, "create", example="…")
def create(size: Size, kind: Annotated[str, typer.Option()], label: Labels): ...
@add(app, "list")
def list_(limit: Annotated[int, typer.Option()]): ...
add_set(app, NOUN, "Set one.", "…", color=Annotated[str, typer.Option()], shape=Shape, weight=Size)
"""
    assert options_written_in(text) == {"size", "kind", "color", "weight"}


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
