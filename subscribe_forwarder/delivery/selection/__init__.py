"""Selects the messages that a subscription reads: its filter and its skip rules, judged
batch by batch.
"""

from __future__ import annotations

from subscribe_forwarder.delivery.selection.selection import Selection, of, read_ahead

__all__ = ["Selection", "of", "read_ahead"]
