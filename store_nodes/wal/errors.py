"""Errors of a log, besides an OSError from a write or fsync, which is fatal.

WalError
├── WalDamaged         bytes that were synced do not verify
├── WalClosed          the log was closed, or failed before and takes nothing more
├── BadFooter          an index whose bytes verify does not add up
├── WalUnsupported     written by a newer version of the format
├── IdentityMismatch   the directory belongs to another node or cluster
└── DirectoryLocked    another process has the directory
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from store_nodes.wal.recovery import Damage


class WalError(Exception):
    """The base of all errors of the log."""


class WalDamaged(WalError):
    """Synced bytes do not verify; `damage` says where."""

    def __init__(self, damage: Damage) -> None:
        super().__init__(f"segment {damage.segment} at {damage.offset}: {damage.reason}")
        self.damage = damage


class WalClosed(WalError):
    """The log was closed, or failed before and takes nothing more."""


class BadFooter(WalError, ValueError):
    """An index whose bytes verify does not add up: its writer made a mistake."""


class WalUnsupported(WalError):
    """The files were written by a version of the format that this one does not know."""


class IdentityMismatch(WalError):
    """The directory belongs to another node, another cluster or nobody."""


class DirectoryLocked(WalError):
    """Another process has the directory open."""
