"""The database itself: found, started, migrated, dumped, and who may touch what in it."""
