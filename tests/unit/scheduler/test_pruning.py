from __future__ import annotations

from scheduler.pruning import AT_ONCE, MAX_STATEMENTS, Pruning
from scheduler.settings import load


class Rows:
    """A table from which `count` rows may be deleted."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.statements = 0

    async def prune(self, older_than_s: float, limit: int) -> int:
        assert older_than_s == 60.0
        self.statements += 1
        gone = min(self.count, limit)
        self.count -= gone
        return gone


async def test_a_round_deletes_all_that_is_old() -> None:
    rows = Rows(2 * AT_ONCE + 1)
    await Pruning("rows", rows.prune, 60.0, 1.0).round()
    assert (rows.count, rows.statements) == (0, 3)


async def test_a_round_is_bounded() -> None:
    rows = Rows(2 * MAX_STATEMENTS * AT_ONCE)
    await Pruning("rows", rows.prune, 60.0, 1.0).round()
    assert rows.statements == MAX_STATEMENTS


def test_usage_and_audit_are_kept_for_400_days_unless_told_otherwise() -> None:
    assert load({}).usage_retention_days == load({}).audit_retention_days == 400
