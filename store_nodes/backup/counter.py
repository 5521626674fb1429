"""Where it is remembered that a backup was taken: in the log itself, so that every process that
asks knows, and a restored store knows of the backup before."""

from __future__ import annotations

GROUP = 0
COUNTER = "backup"
"""When the newest backup that is whole was begun, in seconds since 1970."""
