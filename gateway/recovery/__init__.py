"""What is done when Postgres has gone back in time: see metadata/eras.py for how that is told."""
