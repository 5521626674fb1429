"""What the caller of a request may do: permissions, each on the names that patterns match.

Made once per verified token, so a request costs one look into a dict. A pattern is a name in which
`*` stands for any characters; it is never compiled to a regular expression, so no pattern is slow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from edge.problem import Problem

ANY = "*"
"""As a kind: every kind; as a pattern: every name."""
MAX_REMEMBERED = 4096
"""Names whose answer is kept per caller: more are asked for only by those who try names."""


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a name is matched by `pattern`, in time linear in the two."""
    first, *rest = pattern.split(ANY)
    if not rest:
        return lambda name: name == pattern
    *middle, last = rest
    shortest = len(first) + len(last)

    def matches(name: str) -> bool:
        if len(name) < shortest or not name.startswith(first) or not name.endswith(last):
            return False
        at, end = len(first), len(name) - len(last)
        for part in middle:
            found = name.find(part, at, end)
            if found < 0:
                return False
            at = found + len(part)
        return True

    return matches


def forbidden(permission: str, kind: str = "", name: str = "") -> Problem:
    """The 403 for what the token's grants do not cover."""
    if name:
        what = f"this token lacks the permission {permission!r} on the {kind} {name[:128]!r}"
    elif kind == ANY:
        what = f"this token lacks the permission {permission!r} on everything"
    elif kind:
        what = f"this token lacks the permission {permission!r} on every {kind}"
    else:
        what = f"this token lacks the permission {permission!r}"
    return Problem(403, "forbidden", "Not allowed", what[0].upper() + what[1:] + ".")


class Caller:
    """The grants of one principal, as (permission, kind, pattern)."""

    __slots__ = ("_grants", "_remembered", "_whole")

    def __init__(self, grants: Iterable[tuple[str, str, str]]) -> None:
        self._grants: dict[str, list[tuple[str, Callable[[str], bool]]]] = {}
        self._whole: set[tuple[str, str]] = set()
        self._remembered: dict[tuple[str, str, str], bool] = {}
        for permission, kind, pattern in grants:
            self._grants.setdefault(permission, []).append((kind, matcher(pattern)))
            if not pattern.strip(ANY):
                self._whole.add((permission, kind))

    def may(self, permission: str, kind: str, name: str) -> bool:
        """On that name."""
        asked = (permission, kind, name)
        known = self._remembered.get(asked)
        if known is None:
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered.clear()
            known = self._remembered[asked] = any(
                matches(name)
                for granted, matches in self._grants.get(permission, ())
                if granted in (kind, ANY)
            )
        return known

    def may_all(self, permission: str, kind: str = ANY) -> bool:
        """On every name of the kind; of every kind where none is named."""
        return (permission, ANY) in self._whole or (permission, kind) in self._whole

    def may_some(self, permission: str, kind: str = ANY) -> bool:
        """On a name of the kind, whichever; of any kind where none is named."""
        granted = self._grants.get(permission, ())
        return any(kind == ANY or each in (kind, ANY) for each, _ in granted)

    def require(self, permission: str, kind: str, name: str) -> None:
        """Raises the 403 Problem; for names that stand in bodies."""
        if not self.may(permission, kind, name):
            raise forbidden(permission, kind, name)
