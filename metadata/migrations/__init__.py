"""Alembic migrations; `metadata.migrate.upgrade` runs them."""
