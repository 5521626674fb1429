"""Decides whether this process should be sent requests, and if not, why."""

from __future__ import annotations

from collections.abc import Callable, Mapping

Check = Callable[[], str | None]
"""Answers None when all is well, else the reason, in a few words for people."""


class Readiness:
    """Named checks that read state kept by others; asking costs nothing and awaits nothing."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}
        self._warnings: dict[str, Check] = {}
        self.draining = False

    def add(self, name: str, check: Check) -> None:
        self._checks[name] = check

    def add_warning(self, name: str, check: Check) -> None:
        """Add a check whose failure people must mend, and another process would do no better."""
        self._warnings[name] = check

    def reasons(self) -> dict[str, str]:
        """Return the reasons why this process is not ready, by name; empty when it is ready.

        Warnings for people are told with them, because they are often the cause: a store whose disk
        is full has no leader.
        """
        if self.draining:
            return {"server": "draining"}
        found = _said(self._checks)
        return found | self.warnings() if found else found

    def warnings(self) -> dict[str, str]:
        """Empty when all is well."""
        return _said(self._warnings)


def _said(checks: Mapping[str, Check]) -> dict[str, str]:
    found = ((name, check()) for name, check in checks.items())
    return {name: reason for name, reason in found if reason is not None}


class LeaderCheck:
    """Not ready until every group has had a leader once; after that, only when none has one.

    A group without a leader for half a second must not take a process out of the balancer: unkeyed
    publishes are re-routed and the others wait.
    """

    def __init__(self, groups: range, has_leader: Callable[[int], bool]) -> None:
        self._has_leader = has_leader
        self._groups = groups
        self._unseen = set(groups)

    def __call__(self) -> str | None:
        led = {group for group in self._groups if self._has_leader(group)}
        self._unseen -= led
        if self._unseen:
            return f"no leader yet in {len(self._unseen)} of {len(self._groups)} groups"
        return None if led else "no group has a leader"
