"""The door to Postgres."""

from __future__ import annotations


class Database:
    """Pools, deadlines and error mapping; connects lazily and heals by itself."""
