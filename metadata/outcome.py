"""Translates an exception of a driver into its meaning: not done, unknown, or a fault of ours."""

from __future__ import annotations

import asyncpg
import sqlalchemy.exc

from metadata.errors import (
    LeaseLost,
    MetadataError,
    MetadataUnavailable,
    OutcomeUnknown,
    StatementRefused,
    UnsafeServer,
)

FENCED_OUT = "PB001"
"""The SQLSTATE of a transaction that its fence did not let begin (locks/fenced.py)."""
# The server answered, so nothing was done; it may work later.
_LATER = (
    asyncpg.InsufficientResourcesError,
    asyncpg.TransactionRollbackError,
    asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.UndefinedTableError,  # not migrated yet
)
# The connection ended, so the outcome of statements in flight is unknown.
_LOST = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.DatabaseDroppedError,
    asyncpg.IdleSessionTimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    sqlalchemy.exc.TimeoutError,
)


def translate(error: Exception, *, sent: bool) -> Exception:
    """Return the error to raise instead; `sent` tells whether a commit may have reached
    the server.
    """
    if isinstance(error, MetadataError):
        return error
    cause = _driver_error(error)
    if isinstance(cause, UnsafeServer):
        return cause
    if isinstance(cause, asyncpg.PostgresError) and cause.sqlstate == FENCED_OUT:
        return LeaseLost(str(cause))
    if isinstance(cause, _LATER):
        return MetadataUnavailable(_text(cause))
    if isinstance(cause, _LOST) or _invalidated(error):
        if sent:
            return OutcomeUnknown(_text(cause))
        return MetadataUnavailable(_text(cause))
    if isinstance(cause, asyncpg.PostgresError):
        return StatementRefused(_text(cause))
    return error


def answered(error: BaseException | None) -> bool:
    """Return whether Postgres answered, so that the operation did not end while it waited."""
    if error is None:
        return True
    if isinstance(error, MetadataError):
        return not isinstance(error, MetadataUnavailable | OutcomeUnknown)
    return not isinstance(_driver_error(error), _LOST) and not _invalidated(error)


def _driver_error(error: BaseException) -> BaseException:
    """Return asyncpg's own exception below SQLAlchemy's wrapping, if there is one."""
    while isinstance(error, sqlalchemy.exc.DBAPIError):
        inner = error.orig
        if inner is None:
            return error
        error = inner.__cause__ or inner
    return error


def _invalidated(error: BaseException) -> bool:
    return isinstance(error, sqlalchemy.exc.DBAPIError) and error.connection_invalidated


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
