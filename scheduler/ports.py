"""The part of the store that the scheduler uses; tests put their own in place of it."""

from __future__ import annotations

from typing import Protocol


class StoredLimits(Protocol):
    """The bytes that each tenant may store, over all of its topics."""

    @property
    def any(self) -> bool:
        """Whether some tenant has a limit."""
        ...

    def of(self, tenant_id: bytes) -> float:
        """Return a tenant's limit; 0 for none."""
        ...
