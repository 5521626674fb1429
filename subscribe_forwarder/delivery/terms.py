"""The settings of a subscription that its readers need."""

from __future__ import annotations

from typing import NamedTuple

from subscribe_forwarder.delivery.selection.selection import Selection
from subscribe_forwarder.delivery.state.retry import Policy


class Terms(NamedTuple):
    """The settings may change while a reader reads, except for the order of keys."""

    policy: Policy = Policy()
    selection: Selection | None = None
    """The selection; None if everything is delivered."""
    only_again: bool = False
    """Only messages that were read before are delivered."""


DEFAULT_TERMS = Terms()
