"""Test from which position the log is read after a checkpoint."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from store_nodes.node.start import CheckpointDraft
from store_nodes.wal.frame import HEADER_BYTES
from store_nodes.wal.position import Position

LAST = Position(5, HEADER_BYTES + 200, 0)


@pytest.mark.parametrize(
    ("not_applied", "segment", "offset"),
    [((), 5, 200), ((Position(4, HEADER_BYTES + 7, 0), Position(2, HEADER_BYTES + 9, 0)), 2, 9)],
    ids=["all applied", "some not applied"],
)
def test_the_log_is_read_from_the_earliest_record_that_was_not_applied(
    not_applied: tuple[Position, ...], segment: int, offset: int
) -> None:
    """An accepted value that is not applied is in the log alone."""
    group: Any = SimpleNamespace(id=3, positions=dict(enumerate(not_applied)))
    log: Any = SimpleNamespace(unfootered_batches=lambda: ())
    rest = CheckpointDraft([group], log, LAST).rest()
    assert rest[:2] == (segment, offset)
