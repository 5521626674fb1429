from __future__ import annotations

from scheduler.history import AT_ONCE, MAX_STATEMENTS, HistoryKeeper


class History:
    """So many rows may go."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.statements = 0

    async def trim(self, default_retention_s: int, limit: int = 0) -> int:
        assert default_retention_s == 7 * 86_400
        self.statements += 1
        gone = min(self.rows, limit)
        self.rows -= gone
        return gone


async def test_a_round_deletes_all_that_may_go() -> None:
    history = History(2 * AT_ONCE + 1)
    await HistoryKeeper(history).round()
    assert (history.rows, history.statements) == (0, 3)


async def test_a_round_is_bounded() -> None:
    history = History(2 * MAX_STATEMENTS * AT_ONCE)
    await HistoryKeeper(history).round()
    assert history.statements == MAX_STATEMENTS
