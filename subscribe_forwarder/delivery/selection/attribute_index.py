"""The messages of a batch that have an attribute with a value, found once for all subscriptions."""

from __future__ import annotations

from edge.expressions.conjunction import Equality
from subscribe_forwarder.delivery.reading.batch import Batch

MAX_NAMES = 32
"""The limit of attributes per batch; filters over more of them make their own lists."""
_NOBODY: list[int] = []


def holders(batch: Batch, equality: Equality) -> list[int]:
    """Return the ascending indices for which the equality is true. Do not change the list."""
    by_value = _by_value(batch, equality.attribute)
    if len(equality.values) == 1:
        (value,) = equality.values
        return by_value.get(value, _NOBODY)
    return sorted(index for value in equality.values for index in by_value.get(value, _NOBODY))


def _by_value(batch: Batch, name: str) -> dict[str, list[int]]:
    found = batch.attribute_index.get(name)
    if found is not None:
        return found
    made: dict[str, list[int]] = {}
    for index, message in enumerate(batch.messages()):
        attributes = message.attributes
        if attributes and (value := attributes.get(name)) is not None:
            made.setdefault(value, []).append(index)
    if len(batch.attribute_index) < MAX_NAMES:
        batch.attribute_index[name] = made
    return made
