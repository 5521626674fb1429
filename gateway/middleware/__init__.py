"""The work around every handler: pure functions and one exchange object, no wrapped tasks."""
