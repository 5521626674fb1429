"""Style rules that matter, as tests. Each names what to write instead."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.parts import ROOT
from tests.tidy.sources import PARTS, modules, name, paths, text, tracked

MAX_MODULE_LINES = 800
MAX_FUNCTION_LINES = 80


def test_modules_have_a_size() -> None:
    """Split by noun before it is a god-file."""
    long = {
        name(path): lines
        for path in paths(*PARTS, "tests", "benchmarks", "examples", "harness")
        if (lines := len(text(path).splitlines())) > MAX_MODULE_LINES
    }
    assert long == {}


def test_functions_have_a_size() -> None:
    long = {
        f"{module.name}:{function.name}": function.lines
        for module in modules()
        for function in module.functions
        if function.lines > MAX_FUNCTION_LINES
    }
    assert long == {}


def test_every_module_says_what_it_is() -> None:
    silent = [
        module.name
        for module in modules()
        if module.path.name != "__init__.py" and not module.documented
    ]
    assert silent == []


def test_annotations_are_postponed_everywhere() -> None:
    missing = [
        module.name
        for module in modules()
        if module.has_code
        and module.path.name != "__main__.py"
        and "from __future__ import annotations" not in text(module.path)
    ]
    assert missing == []


BANNED = {
    r"\bBaseHTTPMiddleware\b": "a pure ASGI callable: it breaks context and cancellation",
    r"\bos\.fsync\(.*\)\s*#\s*type": "no",
    r"\bdatetime\.utcnow\(": "datetime.now(UTC)",
    r"\btime\.sleep\(": "asyncio.sleep, or a thread's own wait with a reason here",
    r"\bpickle\b": "msgspec",
    r"\byaml\.load\((?!.*Safe)": "a safe loader",
    r"\bshell=True": "a list of arguments",
}
ALLOWED = {
    # sidecar.py: a sleep of nothing, in a thread, lets the event loop have the interpreter.
    r"\btime\.sleep\(": {"metadata/postgres/embedded.py", "store_nodes/storage/sidecar.py"}
}


@pytest.mark.parametrize("pattern", BANNED, ids=lambda pattern: re.sub(r"\W+", "-", pattern))
def test_banned_calls(pattern: str) -> None:
    allowed = ALLOWED.get(pattern, set())
    found = [
        f"{name(path)}:{number}"
        for path in paths()
        if re.search(pattern, text(path)) and name(path) not in allowed
        for number, line in enumerate(text(path).splitlines(), 1)
        if re.search(pattern, line)
    ]
    assert found == [], f"write instead: {BANNED[pattern]}"


def test_only_settings_read_the_environment() -> None:
    found = [
        name(path)
        for path in paths(*(part for part in PARTS if part != "sdk"))
        if path.name != "settings.py" and re.search(r"\bos\.(environ|getenv)\b", text(path))
    ]
    allowed = {
        "metadata/postgres/binaries.py",  # cleans the environment that it hands to Postgres
        "spark_exports/fail_points.py",  # of tests; off by being absent
        "spark_exports/session.py",  # Spark has settings that are variables alone
    }
    assert set(found) - allowed == set()


def test_no_formatted_sql() -> None:
    """Pass values as parameters."""
    words = re.compile(r"\b(SELECT|INSERT INTO|UPDATE|DELETE FROM)\b")
    found = [
        f"{module.name}:{line}"
        for module in modules()
        for line, fixed in module.formatted
        if words.search(fixed)
    ]
    assert found == []


def test_consensus_and_log_catch_nothing_broadly() -> None:
    """A broad except there hides the failure that must end the process, unless it re-raises."""
    found = [
        f"{module.name}:{line}"
        for module in modules("store_nodes")
        if {"consensus", "wal"} & set(module.path.parts)
        for line in module.swallowing
    ]
    assert found == []


def test_no_dead_modules() -> None:
    """Every module of the product is imported by another one, or is an entry point."""
    entry = {
        "gateway/__main__.py",
        "gateway/command.py",
        "gateway/testing/__main__.py",
        "sdk/python/packetboat/testing/plugin.py",
        "metadata/migrations/env.py",
        "metadata/postgres/migrate.py",
        "sdk/python/generate_sync.py",
        "sdk/python/setup.py",
        "spark_exports/driver/__main__.py",
        "spark_exports/runner/__main__.py",
    }
    everything = modules(*PARTS, "deploy", "tests", "examples", "benchmarks", "harness")
    imported = frozenset().union(*(module.imported for module in everything))
    dead = []
    for path in paths():
        relative = path.relative_to(ROOT)
        parts = relative.parts[2:] if relative.parts[0] == "sdk" else relative.parts
        dotted = ".".join(parts).removesuffix(".py")
        if path.name == "__init__.py" or name(path) in entry or "versions" in parts:
            continue
        if dotted not in imported:
            dead.append(name(path))
    assert dead == []


def test_no_machine_paths_in_what_is_committed() -> None:
    """No file holds a path that exists only on one machine, nor the address of a package index."""
    patterns = (r"/home/[a-z]", r"/root/[a-z]", r"index-url", r"https?://(pypi|files\.python)")
    found = [
        f"{name(path)}: {pattern}"
        for path in tracked()
        if path.suffix in {".py", ".md", ".toml", ".lock", ".yaml", ".yml", ".sh", ""}
        and path != Path(__file__)
        for pattern in patterns
        if re.search(pattern, path.read_text(encoding="utf-8", errors="replace"))
    ]
    assert found == []


def test_one_title_per_page() -> None:
    for path in tracked():
        if path.suffix == ".md":
            page = re.sub(r"```.*?```", "", text(path), flags=re.DOTALL)
            assert len(re.findall(r"^# ", page, flags=re.MULTILINE)) == 1, name(path)
