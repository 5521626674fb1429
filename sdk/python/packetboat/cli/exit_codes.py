"""The exit codes by which the command informs scripts; docs/guides/command-line.md has the
table.
"""

from __future__ import annotations

import enum

from packetboat.errors import (
    Conflict,
    ConnectionFailed,
    InvalidRequest,
    NotAuthorized,
    NotFound,
    Overloaded,
    PacketboatError,
    Unavailable,
    UnknownOutcome,
)


class ExitCode(enum.IntEnum):
    """A number never changes its meaning."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_AUTHORIZED = 3
    NOT_FOUND = 4
    CONFLICT = 5
    UNAVAILABLE = 6
    UNKNOWN_OUTCOME = 7
    INTERRUPTED = 130
    READER_GONE = 141


_OF: tuple[tuple[type[PacketboatError], ExitCode], ...] = (
    (NotAuthorized, ExitCode.NOT_AUTHORIZED),
    (NotFound, ExitCode.NOT_FOUND),
    (Conflict, ExitCode.CONFLICT),
    (Overloaded, ExitCode.UNAVAILABLE),
    (Unavailable, ExitCode.UNAVAILABLE),
    (ConnectionFailed, ExitCode.UNAVAILABLE),
    (UnknownOutcome, ExitCode.UNKNOWN_OUTCOME),
    (InvalidRequest, ExitCode.FAILED),
)


def exit_code_of(error: PacketboatError) -> ExitCode:
    return next((code for kind, code in _OF if isinstance(error, kind)), ExitCode.FAILED)
