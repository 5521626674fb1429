"""The documentation is complete where it promises to be."""

from __future__ import annotations

import ast
import dataclasses
import re
from itertools import chain
from pathlib import Path

import msgspec

import openapi
from gateway.configuration.settings import ServerSettings, UpSettings
from gateway.quotas.settings import QuotaSettings
from gateway.telemetry import settings as telemetry_settings
from metadata import settings as metadata_settings
from openapi import problem_page
from openapi.areas import OPERATIONS
from openapi.problems import PROBLEMS
from openapi.refusals import refusals_of
from peering.settings import PeerSettings
from publish_forwarder.settings import PublishSettings
from scheduler.settings import SchedulerSettings
from spark_exports.runner import settings as runner_settings
from spark_exports.runner.settings import RunnerSettings
from store_nodes import settings as store_settings
from tests.parts import ROOT
from tests.tidy.sources import modules, tracked

DOCS = ROOT / "docs"
PARTS = (
    *("auth", "cron", "edge", "gateway", "publish_forwarder", "scheduler", "schemas"),
    *("positions", "spark_exports", "subscribe_forwarder"),
)


def variables() -> set[str]:
    """Return every variable that a settings module reads, by its source and by its classes."""
    found = set()
    for module in (store_settings, metadata_settings, telemetry_settings):
        text = Path(module.__file__ or "").read_text(encoding="utf-8")
        found |= set(re.findall(r"PACKETBOAT_[A-Z0-9_]*[A-Z0-9]", text))
    for kind, prefix in (
        (ServerSettings, "PACKETBOAT_"),
        (UpSettings, "PACKETBOAT_"),
        (PublishSettings, "PACKETBOAT_PUBLISH_"),
        (QuotaSettings, "PACKETBOAT_QUOTA_"),
        (SchedulerSettings, "PACKETBOAT_SCHEDULER_"),
        (PeerSettings, "PACKETBOAT_PEER_"),
    ):
        found |= {prefix + field.name.upper() for field in dataclasses.fields(kind)}
    found |= set(map(runner_settings.variable_of, runner_settings.from_outside(RunnerSettings)))
    return found - {"PACKETBOAT_STORE", "PACKETBOAT_DATABASE", "PACKETBOAT_QUOTA_UNSET"}


def test_every_setting_is_documented_and_no_other() -> None:
    page = (DOCS / "settings.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`(PACKETBOAT_[A-Z0-9_]+)`", page))
    known = variables() | subscribe_variables()
    assert known - documented == set(), "not in docs/settings.md"
    assert documented - known - client_variables() == set(), "unknown settings"


def client_variables() -> set[str]:
    text = (ROOT / "sdk/python/packetboat/settings.py").read_text(encoding="utf-8")
    return set(re.findall(r"PACKETBOAT_[A-Z_]*[A-Z]", text))


def subscribe_variables() -> set[str]:
    from subscribe_forwarder import settings

    found = set()
    for value in vars(settings).values():
        if dataclasses.is_dataclass(value) and value.__module__ == settings.__name__:
            fields = [field.name for field in dataclasses.fields(value)]
        elif isinstance(value, type) and issubclass(value, msgspec.Struct):
            fields = list(value.__struct_fields__)
        else:
            continue
        found |= {f"PACKETBOAT_SUBSCRIBE_{name.upper()}" for name in fields}
    return found


def slugs() -> set[str]:
    """Return the slug of every problem made in the source: the first argument of
    `Problem.of(...)`.
    """
    return {
        slug + SUFFIX.get(call.name, "")
        for module in modules(*PARTS)
        for call in module.calls
        if len(call.texts) > (at := SLUG_AT.get(call.name, len(call.texts)))
        # A slug made of variables is not seen; there are two, of the kinds of things there are.
        if (slug := call.texts[at]) is not None
    }


SLUG_AT = {
    "Problem.of": 0,
    "_not_done": 0,
    "unavailable": 0,
    "not_found": 0,
    "Resource": 0,
    "taken": 0,
}
SUFFIX = {
    "unavailable": "-unavailable",
    "not_found": "-not-found",
    "Resource": "-not-found",
    "taken": "-exists",
}


def test_every_problem_is_documented_and_no_other() -> None:
    page = (DOCS / "problems.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^## ([a-z0-9-]+)$", page, flags=re.MULTILINE))
    assert slugs() - documented == set(), "not in docs/problems.md"
    assert documented - slugs() - kinds_not_found() == set(), "documented and never answered"
    assert documented == PROBLEMS.keys(), "not in openapi/problems.py"


def test_the_contract_alone_says_the_status_and_the_title_of_a_problem() -> None:
    written = [
        f"{module.path.relative_to(ROOT)}: {call.texts}"
        for module in modules(*PARTS)
        for call in module.calls
        if call.name == "Problem" and any(call.texts)
    ]
    assert written == [], "use Problem.of, and openapi/problems.py"


def test_problems_that_the_contract_names_are_there() -> None:
    for operation in OPERATIONS.values():
        for refusal in refusals_of(operation):
            named = set(re.findall(r"\(`([a-z-]+)`\)", refusal.description))
            assert named <= PROBLEMS.keys()


def test_the_line_of_a_section_is_replaced() -> None:
    page = "# Problems\n\n## conflict\n\n*400 Wrong*\n\nText.\n\n## not-ready\n\nMore.\n"
    assert problem_page.written(page) == (
        "# Problems\n\n## conflict\n\n*409 Conflict*\n\nText.\n\n"
        "## not-ready\n\n*503 Not ready*\n\nMore.\n"
    )


def kinds_not_found() -> set[str]:
    """Return the slugs as which `NotFound(kind, …)` of metadata is answered."""
    return {
        f"{call.texts[0]}-not-found"
        for module in modules("metadata")
        for call in module.calls
        if call.name == "NotFound" and call.texts and call.texts[0] is not None
    }


def test_every_dependency_has_a_reason() -> None:
    import tomllib

    server, sdk = (
        tomllib.loads((ROOT / path / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for path in (".", "sdk/python")
    )
    extras = [*server["optional-dependencies"].values(), sdk["optional-dependencies"]["lake"]]
    extras.append(sdk["optional-dependencies"]["spark"])
    wanted = [*server["dependencies"], *chain.from_iterable(extras)]
    page = (DOCS / "dependencies.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `([a-zA-Z0-9_-]+)`", page, flags=re.MULTILINE))
    names = {re.split(r"[\[><=; ]", line)[0] for line in wanted} - {"packetboat-client"}
    assert names - documented == set(), "not in docs/dependencies.md"
    assert documented - names - {"httpx"} == set(), "no dependency any more"


def test_guarantees_name_tests_that_exist() -> None:
    page = (DOCS / "GUARANTEES.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(tests/[A-Za-z0-9_/.-]+)`", page))
    assert named
    missing = {path for path in named if not (ROOT / path).exists()}
    assert missing == set()


def test_guarantees_name_a_file_or_test_beside_the_path_before_it() -> None:
    """A test is in the file named before it, and a file without a folder is in the folder named
    before it.
    """
    page = (DOCS / "GUARANTEES.md").read_text(encoding="utf-8")
    missing, before, looked = [], ROOT, 0
    for name in re.findall(r"`(tests/[A-Za-z0-9_/.-]+|test_[A-Za-z0-9_.]+)[`:]", page):
        if name.startswith("tests/"):
            before = ROOT / name
            continue
        looked += 1
        if name.endswith(".py"):
            found = (before.parent / name).exists()
        else:
            found = name in names_in(before)
        missing += [] if found else [f"{before.relative_to(ROOT)}: {name}"]
    assert missing == []
    assert looked > 5


WATCHED = {f"P{number}" for number in (*range(1, 11), *range(14, 20))}
"""Promises that an oracle watches; the others name their tests."""


def test_every_promise_names_what_watches_it() -> None:
    page = (DOCS / "GUARANTEES.md").read_text(encoding="utf-8")
    _, *sections = re.split(r"^## (P\d+) ", page, flags=re.MULTILINE)
    promises = dict(zip(sections[::2], sections[1::2], strict=True))
    assert promises.keys() >= WATCHED
    assert [name for name in WATCHED if "\n- **Oracle:** `tests/" not in promises[name]] == []
    assert [name for name in promises if "Caught by: `tests/" not in promises[name]] == []
    named = re.findall(r"`(tests/[A-Za-z0-9_/.-]+)::([A-Za-z0-9_.]+)`", page)
    assert len(named) > len(WATCHED)
    missing = [f"{path}::{name}" for path, name in named if name not in names_in(ROOT / path)]
    assert missing == []


def names_in(path: Path) -> set[str]:
    """Return the functions and classes of a module, and the methods of its classes."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = [one for one in node.body if isinstance(one, FUNCTIONS)]
            found |= {f"{node.name}.{one.name}" for one in inner}
    return found


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)} → {target}")
    assert broken == []


def test_the_readme_names_commands_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE))
    for page in (*ROOT.glob("*.md"), DOCS / "internals.md"):
        assert set(re.findall(r"`make ([a-z-]+)`", page.read_text(encoding="utf-8"))) <= targets


def test_the_contract_is_valid() -> None:
    from openapi_spec_validator import validate

    validate(openapi.document())


def test_every_test_that_a_page_names_is_there() -> None:
    """A promise that names a test no longer there would look guarded."""
    pages = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "ARCHITECTURE.md"]
    named: set[str] = set()
    for page in pages:
        named |= set(re.findall(r"`(tests/[\w/.]+)`", page.read_text(encoding="utf-8")))
    assert len(named) > 30
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


def test_every_file_that_the_architecture_names_is_there() -> None:
    files = [path.relative_to(ROOT).as_posix() for path in tracked()]
    missing = set()
    for page in (
        ROOT / "ARCHITECTURE.md",
        DOCS / "internals.md",
        *(DOCS / "decisions").glob("*.md"),
    ):
        for name in re.findall(r"`([\w./]+\.py)`", page.read_text(encoding="utf-8")):
            if not any(path == name or path.endswith(f"/{name}") for path in files):
                missing.add(f"{page.name}: {name}")
    assert not missing
