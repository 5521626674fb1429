"""The state of a subscription's push by several owners, as people see all together. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_ADDED = ("limit", "in_flight", "requests_in_flight", "leased_ahead", "uncommitted", "delivered")
_WORST = ("open", "half_open", "closed")


def merged(told: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Merge the states of several owners; None of none.

    Counts add up. The worst breaker is shown, the strictest pause and asked rate, and the failures
    that last longest.
    """
    if len(told) <= 1:
        return told[0] if told else None
    shown = dict(told[0])
    pushing = [one for one in told if "breaker" in one]
    since = [one["failing_since"] for one in told if one["failing_since"]]
    shown["failing_since"] = min(since, default=None)
    if not pushing:
        return shown
    worst = min(pushing, key=lambda one: _WORST.index(one["breaker"]))
    shown |= {name: sum(one[name] for one in pushing) for name in _ADDED}
    shown |= {name: worst[name] for name in ("breaker", "breaker_reason")}
    shown["paused_seconds"] = max(one["paused_seconds"] for one in pushing)
    for name in ("max_rate", "max_concurrency"):
        asked = [one[name] for one in pushing if one[name] is not None]
        shown[name] = min(asked, default=None)
    errors = [one["last_error"] for one in pushing if one["last_error"]]
    shown["last_error"] = errors[0] if errors else None
    return shown
