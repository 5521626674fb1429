"""Puts modules of the SDK together: header, imports, and the style of the repository."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from openapi.sdk.methods import Area, calls_module

WIDTH = 100
HEADER = "# Generated from openapi/: `make generate`. Do not edit."
RUFF = Path(sys.executable).with_name("ruff")
PACKAGE = Path(__file__).parents[2] / "sdk/python/packetboat"
BODIES = PACKAGE / "calls" / "bodies.py"
HOMES = {
    "collections.abc": ("AsyncIterator", "Mapping", "Sequence"),
    "datetime": ("datetime",),
    "typing": ("Any", "Literal", "TypedDict", "Unpack"),
}
OF_CALLS = (
    "Call",
    "change",
    "delete",
    "fetch",
    "get",
    "member",
    "member_or_none",
    "moment",
    "nothing",
    "page",
    "part",
    "put",
    "reader",
    "send_json",
    "text",
    "waiting",
    "with_query",
)
_MODEL = re.compile(r"(?<![\"`.\w])[A-Z]\w+")


def module(doc: str, area: Area, body: str, *, calls: bool = False) -> str:
    """Return a module before it has the style of the repository."""
    imports = list(_models(area, body))
    if calls:
        imports += [
            "from packetboat.aio.resources.pages import every",
            "from packetboat.aio.sender import AsyncSender",
            f"from packetboat.calls import {calls_module(area)} as calls",
        ]
    else:
        imports.append(f"from packetboat.calls.call import {', '.join(OF_CALLS)}")
        hooks = set(re.findall(r"^def ([a-z]\w*)", BODIES.read_text("utf-8"), re.MULTILINE))
        if used := sorted(words(body) & hooks):
            imports.append(f"from packetboat.calls.bodies import {', '.join(used)}")
    return put_together(doc, imports, body)


def put_together(doc: str, imports: Iterable[str], body: str) -> str:
    """Return a module with these imports, and those of the standard library and of msgspec."""
    used = words(body)
    standard = [
        f"from {home} import {', '.join(sorted(used.intersection(known)))}"
        for home, known in HOMES.items()
        if used.intersection(known)
    ]
    head = [HEADER, docstring(doc, 0), "", "from __future__ import annotations", "", *standard]
    return "\n".join([*head, "import msgspec", *imports, "", "", body, ""])


def words(body: str) -> set[str]:
    """Return the words of code, without those of its docstrings."""
    return set(re.findall(r"\w+", _code(body)))


def _code(body: str) -> str:
    return re.sub(r'"""(?s:.*?)"""', "", body)


def _models(area: Area, body: str) -> Iterable[str]:
    """Yield the imports of models: every word with a capital that is no other name."""
    others = {name for known in HOMES.values() for name in known}
    others |= {"Call", "None", "True", "False", "AsyncSender", f"Async{area.kind}"}
    code = _code(body)
    homes: dict[str, set[str]] = {}
    for name in set(_MODEL.findall(code)) - others:
        if not name.endswith("Operations"):
            home = "packetboat.models" if name == "Page" else area.models
            homes.setdefault(area.homes.get(name, home), set()).add(name)
    if "models." in code:
        homes.setdefault("packetboat", set()).add("models")
    for home, names in sorted(homes.items()):
        yield f"from {home} import {', '.join(sorted(names))}"


def styled(texts: dict[Path, str]) -> dict[Path, str]:
    """Return modules in the style of the repository, without imports that nothing uses."""
    with ThreadPoolExecutor(4) as pool:
        return dict(zip(texts, pool.map(_styled, texts, texts.values()), strict=True))


def _styled(path: Path, text: str) -> str:
    fixing = ["check", "--quiet", "--select=I,F401", "--fix", "--unsafe-fixes"]
    fixed = _ruff([*fixing, "--stdin-filename", str(path), "-"], text)
    return _ruff(["format", "--quiet", "--stdin-filename", str(path), "-"], fixed)


def _ruff(arguments: list[str], text: str) -> str:
    command = [str(RUFF), *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return done.stdout


def docstring(text: str, indent: int = 4) -> str:
    """Return a docstring, wrapped."""
    margin = " " * indent
    one = f'{margin}"""{text}"""'
    if len(one) <= WIDTH:
        return one
    return "\n".join(
        textwrap.wrap(
            f'"""{text}"""',
            WIDTH,
            initial_indent=margin,
            subsequent_indent=margin,
            break_long_words=False,
            break_on_hyphens=False,
        )
    )
