"""The staged messages of one queue: numbered from 0, packed, dropped when they are settled."""

from __future__ import annotations

from typing import NamedTuple


class StagedMessage(NamedTuple):
    """One message that is staged: neither released nor discarded. `due_us` None: held."""

    stage_number: int
    due_us: int | None
    log_time_us: int
    tag: bytes
