"""A limit of the number of things that a tenant may have at once in this process. Pure."""

from __future__ import annotations


class Level:
    """One limit of one tenant; its demand is the most held and wanted since the last look.

    The other processes are told the demand.
    """

    __slots__ = ("asked", "demand", "limit", "share", "told")

    def __init__(self, limit: float, share: float) -> None:
        self.limit = limit
        self.share = share
        self.asked = 0.0
        self.demand = 0.0
        self.told = 0.0

    def follow(self, limit: float, share: float, now_s: float) -> None:
        """Use another limit and share from now on."""
        self.limit = limit
        self.share = share

    def look(self, took_s: float, now_s: float) -> None:
        self.demand = self.asked
        self.asked = 0.0
