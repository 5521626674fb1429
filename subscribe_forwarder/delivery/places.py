"""The partitions from which a consumer takes, if not from all of them."""

from __future__ import annotations

from typing import NamedTuple


class PartitionChoice(NamedTuple):
    """Named partitions, or with `affinity` those that belong to the consumer."""

    partitions: frozenset[int] | None = None
    affinity: bool = False
