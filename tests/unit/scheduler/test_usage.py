from __future__ import annotations

from scheduler.settings import load
from scheduler.usage import AT_ONCE, MAX_STATEMENTS, UsageKeeper

SETTINGS = load({"PACKETBOAT_SCHEDULER_USAGE_RETENTION_DAYS": "2"})


class Hours:
    """So many rows may go."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.statements = 0

    async def prune(self, older_than_s: float, limit: int) -> int:
        assert older_than_s == 2 * 86_400
        self.statements += 1
        gone = min(self.rows, limit)
        self.rows -= gone
        return gone


async def test_a_round_deletes_all_that_is_old() -> None:
    hours = Hours(2 * AT_ONCE + 1)
    await UsageKeeper(hours, SETTINGS).round()
    assert (hours.rows, hours.statements) == (0, 3)


async def test_a_round_is_bounded() -> None:
    hours = Hours(2 * MAX_STATEMENTS * AT_ONCE)
    await UsageKeeper(hours, SETTINGS).round()
    assert hours.statements == MAX_STATEMENTS


def test_usage_is_kept_for_400_days_unless_told_otherwise() -> None:
    assert load({}).usage_retention_days == 400
