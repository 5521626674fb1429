"""Style rules that matter, as tests. Each names what to write instead."""

from __future__ import annotations

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = (
    "auth",
    "edge",
    "gateway",
    "metadata",
    "openapi",
    "outbox",
    "peering",
    "publish_forwarder",
    "quotas",
    "scheduler",
    "sdk",
    "spark_exports",
    "store_nodes",
    "subscribe_forwarder",
)
MAX_MODULE_LINES = 800
MAX_FUNCTION_LINES = 80


@cache
def tracked() -> tuple[Path, ...]:
    """Files of the repository, also those not committed yet, as git sees them."""
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "-co", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return tuple(ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file())


def modules(*parts: str) -> list[Path]:
    return [
        path
        for path in tracked()
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in (parts or PARTS)
    ]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def _only_in_a_checkout() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout: nothing lists the files")


def test_modules_have_a_size() -> None:
    """Split by noun before it is a god-file."""
    long = {
        name(path): lines
        for path in modules(*PARTS, "tests", "benchmarks", "examples")
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > MAX_MODULE_LINES
    }
    assert long == {}


def test_functions_have_a_size() -> None:
    long = {}
    for path in modules():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > MAX_FUNCTION_LINES:
                    long[f"{name(path)}:{node.name}"] = lines
    assert long == {}


def test_every_module_says_what_it_is() -> None:
    silent = [
        name(path)
        for path in modules()
        if path.name != "__init__.py" and not ast.get_docstring(tree(path))
    ]
    assert silent == []


def test_annotations_are_postponed_everywhere() -> None:
    missing = []
    for path in modules():
        text = path.read_text(encoding="utf-8")
        code = [node for node in tree(path).body if not isinstance(node, ast.Expr)]
        if code and path.name != "__main__.py" and "from __future__ import annotations" not in text:
            missing.append(name(path))
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
        for path in modules()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(pattern, line) and name(path) not in allowed
    ]
    assert found == [], f"write instead: {BANNED[pattern]}"


def test_only_settings_read_the_environment() -> None:
    found = [
        name(path)
        for path in modules(*(part for part in PARTS if part != "sdk"))
        if path.name != "settings.py"
        and re.search(r"\bos\.(environ|getenv)\b", path.read_text(encoding="utf-8"))
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
    found = []
    for path in modules():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.JoinedStr):
                text = "".join(v.value for v in node.values if isinstance(v, ast.Constant))
                if words.search(text):
                    found.append(f"{name(path)}:{node.lineno}")
    assert found == []


def test_consensus_and_log_catch_nothing_broadly() -> None:
    """A broad except there hides the failure that must end the process, unless it re-raises."""
    found = []
    for path in modules("store_nodes"):
        if not {"consensus", "wal"} & set(path.parts):
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ExceptHandler) and _is_broad(node) and not _raises(node):
                found.append(f"{name(path)}:{node.lineno}")
    assert found == []


def _raises(handler: ast.ExceptHandler) -> bool:
    return any(isinstance(inner, ast.Raise) for inner in ast.walk(handler))


def _is_broad(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return isinstance(handler.type, ast.Name) and handler.type.id in ("Exception", "BaseException")


def test_no_dead_modules() -> None:
    """Every module of the product is imported by another one, or is an entry point."""
    entry = {
        "gateway/__main__.py",
        "gateway/command.py",
        "gateway/testing/plugin.py",
        "gateway/testing/__main__.py",
        "metadata/migrations/env.py",
        "metadata/postgres/migrate.py",
        "sdk/python/generate_sync.py",
        "spark_exports/driver/__main__.py",
        "spark_exports/runner/__main__.py",
    }
    imported: set[str] = set()
    for path in modules(*PARTS, "deploy", "tests", "examples", "benchmarks"):
        if path.parts[-3:-1] == ("tests",):
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module)
                imported |= {f"{node.module}.{alias.name}" for alias in node.names}
    dead = []
    for path in modules():
        relative = path.relative_to(ROOT)
        parts = relative.parts[2:] if relative.parts[0] == "sdk" else relative.parts
        dotted = ".".join(parts).removesuffix(".py")
        if path.name == "__init__.py" or name(path) in entry or "versions" in parts:
            continue
        if dotted not in imported:
            dead.append(name(path))
    assert dead == []


def test_no_machine_paths_in_what_is_committed() -> None:
    """What works only on one machine does not belong here; nor do addresses of package indexes."""
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
            text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
            assert len(re.findall(r"^# ", text, flags=re.MULTILINE)) == 1, name(path)
