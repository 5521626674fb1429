"""Writes the status and the title of each problem into its section of docs/problems.md."""

from __future__ import annotations

import re
from pathlib import Path

from openapi.problems import PROBLEMS

PAGE = Path(__file__).parents[1] / "docs/problems.md"
_SECTION = re.compile(r"^## (\S+)\n\n(?:\*\d{3} .*\*\n\n)?", re.MULTILINE)


def written(page: str) -> str:
    """Return the page with the line of each section that the contract says."""
    return _SECTION.sub(lambda found: f"## {found[1]}\n\n{_line(found[1])}", page)


def _line(slug: str) -> str:
    kind = PROBLEMS.get(slug)
    return f"*{kind.status} {kind.title}*\n\n" if kind else ""
