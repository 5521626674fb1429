"""Checks the permissions of a request's caller on the names that its patterns match.

A `Caller` is made once per verified token, so a request costs one look-up in a dict. A pattern is a
name in which `*` stands for any characters; it is never compiled to a regular expression, so no
pattern is slow.

A tenant may have tens of thousands of patterns, and one `Granted` has them for all of its callers.
A name is held only against those that begin as it does or, if they begin with `*`, that end as it
does. Where that may still be many (`Caller.slow`), they are held against it in slices of the event
loop: `learn` does that, and the answer is in memory afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping

from edge.problem import Problem
from edge.slices import Slices

ANY = "*"
"""Every kind, if it stands for a kind; every name, if it stands for a pattern."""
MAX_REMEMBERED = 4096
"""Names whose answer is kept per tenant; only a caller that guesses names asks about more."""
MAX_NAME_CHARS = 512
"""Characters of a name that patterns are held against; no resource has a longer one."""
MAX_AT_ONCE = 500
"""Patterns that a name may be held against in one go: some milliseconds, if all are hostile."""


def fits(pattern: str, name: str) -> bool:
    """Return whether the pattern matches the name, in time linear in the two."""
    first, *rest = pattern.split(ANY)
    if not rest:
        return name == pattern
    last = rest.pop()
    at, end = len(first), len(name) - len(last)
    if end < at or not name.startswith(first) or not name.endswith(last):
        return False
    for part in rest:
        found = name.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def forbidden(permission: str, kind: str = "", name: str = "") -> Problem:
    """Return the 403 Problem for a permission that the token's grants do not cover."""
    if name:
        what = f"this token lacks the permission {permission!r} on the {kind} {name[:128]!r}"
    elif kind == ANY:
        what = f"this token lacks the permission {permission!r} on everything"
    elif kind:
        what = f"this token lacks the permission {permission!r} on every {kind}"
    else:
        what = f"this token lacks the permission {permission!r}"
    return Problem.of("forbidden", what[0].upper() + what[1:] + ".")


class _OfKind:
    """The names and patterns of one kind, and who holds each."""

    __slots__ = (
        "_begin_chars",
        "_begins",
        "_end_chars",
        "_ends",
        "names",
        "patterns",
        "some",
        "whole",
    )

    def __init__(self) -> None:
        self.some = 0
        self.whole = 0
        """The holders of every name."""
        self.names: dict[str, int] = {}
        self.patterns: dict[str, int] = {}
        self._begins: dict[str, str | list[str]] = {}
        """Patterns by the text before their first `*`; a list where several share it.

        Most texts have one pattern, and no list: tens of thousands of them would cost a collection
        of garbage.
        """
        self._ends: dict[str, str | list[str]] = {}
        """Patterns that begin with `*`, by the text after their last one."""
        self._begin_chars: set[int] = set()
        self._end_chars: set[int] = set()

    def add(self, holder: int, pattern: str) -> None:
        self.some |= holder
        begins, star, rest = pattern.partition(ANY)
        if not star:
            self.names[pattern] = self.names.get(pattern, 0) | holder
        elif not begins and not rest.strip(ANY):
            self.whole |= holder
        elif pattern in self.patterns:
            self.patterns[pattern] |= holder
        else:
            self.patterns[pattern] = holder
            ends = rest.rpartition(ANY)[2]
            text, alike, sizes = (
                (begins, self._begins, self._begin_chars)
                if begins
                else (ends, self._ends, self._end_chars)
            )
            sizes.add(len(text))
            known = alike.setdefault(text, pattern)
            if isinstance(known, list):
                known.append(pattern)
            elif known is not pattern:
                alike[text] = [known, pattern]

    def near(self, name: str) -> Iterator[str]:
        """Yield the patterns that begin or end as the name does."""
        size = len(name)
        for chars in self._begin_chars:
            yield from _each(self._begins.get(name[:chars]))
        for chars in self._end_chars:
            if chars <= size:
                yield from _each(self._ends.get(name[size - chars :]))


def _each(found: str | list[str] | None) -> Iterable[str]:
    if found is None:
        return ()
    return (found,) if isinstance(found, str) else found


class Granted:
    """The names and patterns on which something is granted, and who holds each.

    A holder is a bit: one policy of a tenant, or one permission of a scope.
    """

    __slots__ = ("_kinds", "_learning", "_remembered")

    def __init__(self) -> None:
        self._kinds: dict[str, _OfKind] = {}
        self._remembered: dict[tuple[str, str], int] = {}
        self._learning: asyncio.Lock | None = None

    def add(self, holder: int, kind: str, pattern: str) -> None:
        """Note that a holder is granted something; before the first question."""
        known = self._kinds.get(kind)
        if known is None:
            known = self._kinds[kind] = _OfKind()
        known.add(holder, pattern)

    @property
    def slow(self) -> bool:
        """Return whether a new name may have to be held against many patterns."""
        return sum(len(known.patterns) for known in self._kinds.values()) > MAX_AT_ONCE

    def some(self, kind: str) -> int:
        """Return who holds at least one name of the kind; for `*`, of any kind."""
        found = 0
        for each in self._kinds if kind == ANY else (kind, ANY):
            if each in self._kinds:
                found |= self._kinds[each].some
        return found

    def whole(self, kind: str) -> int:
        """Return who holds every name of the kind; for `*`, of every kind."""
        found = 0
        for each in (kind, ANY):
            if each in self._kinds:
                found |= self._kinds[each].whole
        return found

    def on(self, kind: str, name: str) -> int:
        """Return the holders that are granted a name, as bits."""
        known = self._remembered.get((kind, name))
        if known is None:
            known = 0
            for found in self._steps(kind, name):
                known |= found
            self._remember(kind, name, known)
        return known

    async def learn(self, kind: str, name: str) -> None:
        """Find out who holds the name, in slices, so that `on` knows it.

        One name at a time: callers that ask about many take one slice of a turn of the loop.
        """
        if (kind, name) in self._remembered:
            return
        if self._learning is None:
            self._learning = asyncio.Lock()
        async with self._learning:
            known, slices = 0, Slices()
            for found in self._steps(kind, name):
                known |= found
                if slices.over:
                    await slices.rest()
            self._remember(kind, name, known)

    def _steps(self, kind: str, name: str) -> Iterator[int]:
        """Yield who holds the name, pattern by pattern."""
        for each in (kind, ANY):
            known = self._kinds.get(each)
            if known is None:
                continue
            yield known.whole | known.names.get(name, 0)
            if len(name) <= MAX_NAME_CHARS:
                for pattern in known.near(name):
                    yield known.patterns[pattern] if fits(pattern, name) else 0

    def _remember(self, kind: str, name: str, holders: int) -> None:
        if len(name) <= MAX_NAME_CHARS:
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered.clear()
            self._remembered[kind, name] = holders


class Caller:
    """The grants of one principal."""

    __slots__ = ("_granted", "_holders", "slow")

    def __init__(
        self,
        grants: Iterable[tuple[str, str, str]] | Granted,
        holders: Mapping[str, int] | None = None,
    ) -> None:
        """Make a caller of a few grants, as (permission, kind, pattern), or of a `Granted`.

        `holders` are those of the caller that hold a permission, by permission.
        """
        if isinstance(grants, Granted):
            self._granted, self._holders = grants, holders or {}
        else:
            self._granted, self._holders = Granted(), dict[str, int]()
            for permission, kind, pattern in grants:
                holder = self._holders.setdefault(permission, 1 << len(self._holders))
                self._granted.add(holder, kind, pattern)
        self.slow = self._granted.slow
        """Whether a look at a new name may take long: `learn` it before `may`."""

    def may(self, permission: str, kind: str, name: str) -> bool:
        """Return whether the caller has the permission on a name."""
        if self.slow and self.may_all(permission, kind):
            return True
        mine = self._holders.get(permission, 0)
        return bool(mine and mine & self._granted.on(kind, name))

    def may_all(self, permission: str, kind: str = ANY) -> bool:
        """Return whether the caller has it on every name of the kind; by default, of every kind."""
        return bool(self._holders.get(permission, 0) & self._granted.whole(kind))

    def may_some(self, permission: str, kind: str = ANY) -> bool:
        """Return whether the caller has it on at least one name of the kind; by default, of any
        kind.
        """
        return bool(self._holders.get(permission, 0) & self._granted.some(kind))

    async def learn(self, permission: str, kind: str, name: str) -> None:
        """Look at a name in slices of the event loop, where that may take long."""
        if self.slow and permission in self._holders and not self.may_all(permission, kind):
            await self._granted.learn(kind, name)

    async def require(self, permission: str, kind: str, name: str) -> None:
        """Check a name that stands in a body; raises the 403 Problem."""
        await self.learn(permission, kind, name)
        self.must(permission, kind, name)

    def must(self, permission: str, kind: str, name: str) -> None:
        """Check a name that was looked at already; raises the 403 Problem."""
        if not self.may(permission, kind, name):
            raise forbidden(permission, kind, name)

    async def allows(self, permission: str, kind: str, name: str) -> bool:
        """Return whether the caller has the permission on a name that is one of many."""
        await self.learn(permission, kind, name)
        return self.may(permission, kind, name)
