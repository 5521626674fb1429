"""The state of a subscription's push by several owners, as people see all together. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET
from msgspec.structs import replace

from openapi.push import PushStatus

_ADDED = ("limit", "in_flight", "requests_in_flight", "leased_ahead", "uncommitted", "delivered")
_WORST = ("open", "half_open", "closed")


def merged(told: Sequence[PushStatus]) -> PushStatus | None:
    """Merge the states of several owners; None of none.

    Counts add up. The worst breaker is shown, the strictest pause and asked rate, and the failures
    that last longest.
    """
    if len(told) <= 1:
        return told[0] if told else None
    since = [one.failing_since for one in told if one.failing_since]
    shown = replace(told[0], failing_since=min(since, default=None))
    pushing = [one for one in told if one.breaker is not UNSET]
    if not pushing:
        return shown
    worst = min(pushing, key=lambda one: _WORST.index(one.breaker))
    shown.breaker, shown.breaker_reason = worst.breaker, worst.breaker_reason
    for name in _ADDED:
        setattr(shown, name, sum(getattr(one, name) for one in pushing))
    shown.paused_seconds = max(one.paused_seconds or 0.0 for one in pushing)
    for name in ("max_rate", "max_concurrency"):
        asked = [value for one in pushing if (value := getattr(one, name)) is not None]
        setattr(shown, name, min(asked, default=None))
    shown.last_error = next((one.last_error for one in pushing if one.last_error), None)
    return shown
