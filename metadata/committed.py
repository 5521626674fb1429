"""Counts the commits that a request has caused.

A handler may commit more than once. When Postgres refuses the second transaction, the first has
changed something already, and "nothing was done" would be wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Commits:
    """Counts the transactions that were committed within a `counting` block."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


_COMMITS: ContextVar[Commits | None] = ContextVar("commits", default=None)


@contextmanager
def counting() -> Iterator[Commits]:
    """Count the commits of the block, also those of tasks that it starts."""
    commits = Commits()
    token = _COMMITS.set(commits)
    try:
        yield commits
    finally:
        _COMMITS.reset(token)


def note() -> None:
    """Note a commit that Postgres has confirmed; `Database` calls it."""
    commits = _COMMITS.get()
    if commits is not None:
        commits.count += 1
