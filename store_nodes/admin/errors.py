"""What an operation ends in when it does not end well.

AdminError
├── Refused       a rule forbids it, or what was given does not fit; nothing more is done
└── NotFinished   some of it is done; the same call again goes on
"""

from __future__ import annotations


class AdminError(Exception):
    """An operation did not end well; the text says why and what to do."""


class Refused(AdminError):
    """A rule forbids it, or what was given does not fit the cluster."""


class NotFinished(AdminError):
    """It did not end in time; calling it again goes on."""
