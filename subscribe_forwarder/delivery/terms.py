"""What a subscription says that its readers go by."""

from __future__ import annotations

from typing import NamedTuple

from subscribe_forwarder.reading.judgement import Selection
from subscribe_forwarder.state.retry import Policy


class Terms(NamedTuple):
    """They may change while it reads, but for whether it is in order."""

    policy: Policy = Policy()
    selection: Selection | None = None
    """None: everything is delivered."""
    only_again: bool = False
    """Only what was read before is handed out."""


DEFAULT_TERMS = Terms()
