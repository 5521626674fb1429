"""The fair share of each tenant, by weight, of a limit that is too small for all. Pure."""

from __future__ import annotations

from collections.abc import Sequence

_LEAST = 1e-9


def water_level(demands: Sequence[tuple[float, float]], room: float) -> float | None:
    """Return the level at which all together get `room`, a tenant `min(demand, weight * level)`.

    `demands` are (demand, weight) pairs. Returns None if there is room for all of them.
    """
    if sum(demand for demand, _ in demands) <= room:
        return None
    weight = sum(weight for _, weight in demands)
    left = room
    for demand, of in sorted(demands, key=lambda each: each[0] / each[1]):
        if demand / of > left / weight:
            break
        left -= demand
        weight -= of
    return max(0.0, left) / max(weight, _LEAST)
