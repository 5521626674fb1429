"""The one way to put messages into the log, for all who do."""
