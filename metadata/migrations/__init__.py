"""Alembic migrations; `metadata.postgres.migrate.upgrade` runs them."""
