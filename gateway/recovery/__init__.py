"""The repair after Postgres has gone back in time; metadata/eras.py says how that is noticed."""
