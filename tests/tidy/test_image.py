"""The image gets every package of the product, and of the rest only what it is made of."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def let_in() -> set[str]:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in lines, "nothing is left out"
    return {line.removeprefix("!") for line in lines if line.startswith("!")}


PROJECTS = {"pyproject.toml", "setup.py", "README.md", "LICENSE"} | {
    f"sdk/python/{name}" for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE")
}
"""The files that wheels are built from or contain."""


def packages() -> set[str]:
    """Return the folders of the product."""
    tops = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    product = tops - {"benchmarks", "examples", "harness", "tests"}
    return product | {"deploy/packetboat_server", "sdk/python/packetboat"}


def copied() -> set[str]:
    """Return the further files that the image is made of."""
    text = (ROOT / "deploy/container/Dockerfile").read_text(encoding="utf-8")
    lines = re.findall(r"^COPY (?!--from)(.+)$", text, re.M)
    return {name for line in lines for name in line.split()[:-1]} - {"."}


def test_the_context_is_what_the_image_is_made_of() -> None:
    assert let_in() == packages() | copied() | PROJECTS
    assert all((ROOT / name).exists() for name in let_in())


def test_the_image_has_every_port_and_no_root() -> None:
    text = (ROOT / "deploy/container/Dockerfile").read_text(encoding="utf-8")
    assert re.search(r"^USER 10001:10001$", text, re.M)
    ports = set(re.findall(r"PORT=(\d+)", text))
    exposed = re.search(r"^EXPOSE (.+)$", text, re.M)
    assert exposed is not None
    assert ports <= set(exposed[1].split())
