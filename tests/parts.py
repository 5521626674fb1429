"""Cuts a long list of checks into parts, so that CI runs another part with each commit.

A part is written as `K/N` (the K-th of N parts, counted from 1), as `all`, or as `rotating`: the
one that the number of commits chooses. As many commits in a row as there are parts run each part
once.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

ROOT = Path(__file__).parents[1]
MUTANTS = 16
LONG_TESTS = 5
ABUSED_ROUTES = 2
OPERATIONS = 6
SEEDS = 3
CASES = 3
"""Parts that `rotating` chooses from, of each list."""
Item = TypeVar("Item")


class Part(NamedTuple):
    """The `number`-th of `count` parts; numbers begin at 1."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def choose(self, items: Sequence[Item]) -> list[Item]:
        """Return every `count`-th item: neighbours, which are alike, are in different parts."""
        return list(items[self.number - 1 :: self.count])


ALL = Part(1, 1)


def commits() -> int:
    """Return the number of commits up to the checked-out one."""
    command = ["git", "-c", "safe.directory=*", "rev-list", "--count", "HEAD"]
    return int(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)


def part_of(text: str, parts: int, count_commits: Callable[[], int] = commits) -> Part:
    """Read a part, `rotating` being one of `parts`; raise ValueError for a text that names none."""
    if text == "all":
        return ALL
    if text == "rotating":
        return Part(count_commits() % parts + 1, parts)
    number, slash, count = text.partition("/")
    part = Part(int(number), int(count)) if slash else Part(0, 0)
    if not 1 <= part.number <= part.count:
        raise ValueError(f"{text!r} is no part: write K/N with K from 1 to N, all, or rotating")
    return part


def of_this_turn(parts: int) -> Part:
    """Return the part whose turn it is; all of them with TEST_EVERY_WAY, and where no history tells
    whose turn it is."""
    if os.environ.get("TEST_EVERY_WAY"):
        return ALL
    try:
        return part_of("rotating", parts)
    except (OSError, subprocess.CalledProcessError):
        return ALL
