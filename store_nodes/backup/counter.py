"""The record that a backup was taken: it is in the log, so that every process knows of it.

A restored store therefore knows of the backup before.
"""

from __future__ import annotations

GROUP = 0
COUNTER = "backup"
"""The counter with the begin of the newest whole backup, in seconds since 1970."""
