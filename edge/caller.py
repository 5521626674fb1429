"""The permissions of a request's caller, each on the names that its patterns match.

A `Caller` is made once per verified token, so a request costs one look-up in a dict. A pattern is a
name in which `*` stands for any characters; it is never compiled to a regular expression, so no
pattern is slow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from edge.problem import Problem

ANY = "*"
"""Every kind, if it stands for a kind; every name, if it stands for a pattern."""
MAX_REMEMBERED = 4096
"""Names whose answer is kept per caller; only a caller that guesses names asks about more."""


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
    return Problem(403, "forbidden", "Not allowed", what[0].upper() + what[1:] + ".")


class _Granted:
    """The names on which one permission is granted, as exact names and as patterns."""

    __slots__ = ("_lengths", "_names", "_patterns", "kinds", "whole")

    def __init__(self, grants: Sequence[tuple[str, str, str]]) -> None:
        self.kinds: set[str] = set()
        self.whole: set[str] = set()
        """Kinds of which every name is granted."""
        self._names: set[tuple[str, str]] = set()
        self._patterns: dict[str, dict[str, str | list[str]]] = {}
        """Patterns by kind and by the text before their first `*`; a list where several share it.

        Most texts have one pattern, and no list: tens of thousands of them would cost a collection
        of garbage.
        """
        for _, kind, pattern in grants:
            self.kinds.add(kind)
            begins, star, rest = pattern.partition(ANY)
            if not star:
                self._names.add((kind, pattern))
            elif begins or rest.strip(ANY):
                alike = self._patterns.setdefault(kind, {})
                known = alike.setdefault(begins, pattern)
                if isinstance(known, list):
                    known.append(pattern)
                elif known is not pattern:
                    alike[begins] = [known, pattern]
            else:
                self.whole.add(kind)
        self._lengths = {len(begins) for alike in self._patterns.values() for begins in alike}

    def covers(self, kind: str, name: str) -> bool:
        if not self.whole.isdisjoint((kind, ANY)):
            return True
        if (kind, name) in self._names or (ANY, name) in self._names:
            return True
        return any(
            fits(found, name) if isinstance(found, str) else any(fits(each, name) for each in found)
            for of in (kind, ANY)
            for length in self._lengths
            if (found := self._patterns.get(of, {}).get(name[:length])) is not None
        )


_NOTHING = _Granted(())


class Caller:
    """The grants of one principal, as (permission, kind, pattern).

    There may be a hundred thousand: making a caller costs nothing, and the grants of a permission
    are collected when it is first asked about.
    """

    __slots__ = ("_grants", "_known", "_remembered")

    def __init__(self, grants: Iterable[tuple[str, str, str]]) -> None:
        self._grants = grants if isinstance(grants, Collection) else tuple(grants)
        self._known: dict[str, _Granted] = {}
        self._remembered: dict[tuple[str, str, str], bool] = {}

    def _of(self, permission: str) -> _Granted:
        found = self._known.get(permission)
        if found is None:
            given = [grant for grant in self._grants if grant[0] == permission]
            found = self._known[permission] = _Granted(given) if given else _NOTHING
        return found

    def may(self, permission: str, kind: str, name: str) -> bool:
        """Return whether the caller has the permission on a name."""
        asked = (permission, kind, name)
        known = self._remembered.get(asked)
        if known is None:
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered.clear()
            known = self._remembered[asked] = self._of(permission).covers(kind, name)
        return known

    def may_all(self, permission: str, kind: str = ANY) -> bool:
        """Return whether the caller has it on every name of the kind; by default, of every kind."""
        return not self._of(permission).whole.isdisjoint((kind, ANY))

    def may_some(self, permission: str, kind: str = ANY) -> bool:
        """Return whether the caller has it on at least one name of the kind; by default, of any
        kind.
        """
        kinds = self._of(permission).kinds
        return bool(kinds) if kind == ANY else not kinds.isdisjoint((kind, ANY))

    def require(self, permission: str, kind: str, name: str) -> None:
        """Check a name that stands in a body; raises the 403 Problem."""
        if not self.may(permission, kind, name):
            raise forbidden(permission, kind, name)
