"""Waiting, as the synchronous client does it."""

from __future__ import annotations

import threading


def pause(seconds: float) -> None:
    """Blocks the thread that asks; a signal's handler runs meanwhile."""
    threading.Event().wait(seconds)
