"""The seam at which operations on Postgres are refused while it does not answer."""

from __future__ import annotations

from typing import Protocol


class Gate(Protocol):
    """Stands before every operation of a `Database`; the product's is a circuit breaker."""

    def enter(self, *, always: bool) -> int:
        """The operation's number, for `left`. MetadataUnavailable instead, if it would only wait;
        never where it is to be made `always`."""
        ...

    def left(self, operation: int, *, answered: bool) -> None:
        """It ended; `answered`: by what Postgres said, be it a refusal. False: the connection, or
        our patience, ended first."""
        ...

    def gave_up(self, operation: int) -> None:
        """It was cancelled, which says nothing of Postgres."""
        ...
