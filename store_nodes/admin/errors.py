"""The errors of operations.

AdminError
├── OperationRefused  a rule forbids it, or what was given does not fit; nothing more is done
└── NotFinished       a part of it is done; the same call again continues
"""

from __future__ import annotations


class AdminError(Exception):
    """An operation failed; the text says why and what to do."""


class OperationRefused(AdminError):
    """A rule forbids the operation, or its arguments do not fit the cluster."""


class NotFinished(AdminError):
    """The operation did not end in time; calling it again continues it."""
