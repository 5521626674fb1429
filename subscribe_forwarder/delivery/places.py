"""Which partitions a consumer takes from, where that is not all of them."""

from __future__ import annotations

from typing import NamedTuple


class Places(NamedTuple):
    """Those that are named, or with `affinity` those that are dealt to the consumer."""

    partitions: frozenset[int] | None = None
    affinity: bool = False
