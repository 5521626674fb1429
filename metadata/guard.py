"""The seam at which operations on Postgres are refused while it does not answer."""

from __future__ import annotations

from typing import Protocol


class DatabaseGuard(Protocol):
    """Stands before every operation of a `Database`; the product's is a circuit breaker."""

    def enter(self, *, always: bool) -> int:
        """Return the number of an operation, for `left`.

        Raises MetadataUnavailable instead if the operation would only wait, but not if it is
        `always` made.
        """
        ...

    def left(self, operation: int, *, answered: bool) -> None:
        """Note the end of an operation.

        `answered`: Postgres answered, be it with a refusal. False: the connection, or our patience,
        ended first.
        """
        ...

    def gave_up(self, operation: int) -> None:
        """Note that an operation was cancelled, which tells nothing about Postgres."""
        ...
