"""Seeded bugs of the store around its consensus core: the simulation must notice each.

Each is a context manager that patches the product. Where several of its rules hold the same
promise, one behind the other, a mutation takes all of them out: that is the defect that was mended.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest import mock

from store_nodes import install, node, start
from store_nodes.checkpoint.format import GroupCheckpoint

Mutation = Callable[[], AbstractContextManager[object]]


def patches(*changes: tuple[object, str, object]) -> AbstractContextManager[object]:
    """All of them at once: (object, attribute, what it is instead)."""
    stack = ExitStack()
    for target, name, value in changes:
        stack.enter_context(mock.patch.object(target, name, value))
    return stack


def an_install_takes_a_group_back() -> AbstractContextManager[object]:
    """B1, P1: any image of any peer is taken, however old it has become, and nothing remembers how
    far the group was."""

    def without_reached(
        group: int, promised: int, upto: int, raw: Any, reached: int
    ) -> GroupCheckpoint:
        return GroupCheckpoint(group, promised, upto, raw, 0)

    def taken(*_: object) -> bool:
        return True

    return patches(
        (install, "is_ahead", taken),
        (start, "is_ahead", taken),
        (install, "least_of", lambda acceptor, oldest: 0),
        (node, "is_behind", lambda checkpoint, groups: False),
        (start, "GroupCheckpoint", without_reached),
    )


MUTATIONS: tuple[Mutation, ...] = (an_install_takes_a_group_back,)
