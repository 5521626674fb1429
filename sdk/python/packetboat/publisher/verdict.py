"""The meaning of an error for the messages that it concerns.

REFUSED   they are not stored, and may be if they are sent again: not reached, overloaded, …
UNKNOWN   they may be stored: only the very same batch may be sent again
WRONG     they are not stored by any try, however often they are sent
FINAL     this try did not store them, and another would end alike
"""

from __future__ import annotations

from enum import Enum, auto

from packetboat.errors import (
    ApiError,
    ConnectionFailed,
    InvalidRequest,
    NotDone,
    Overloaded,
    PacketboatError,
    Unavailable,
)

PRECEDING_ITEM_FAILED = "preceding-item-failed"
TOO_LARGE = 413


class Verdict(Enum):
    """See the module."""

    REFUSED = auto()
    UNKNOWN = auto()
    WRONG = auto()
    FINAL = auto()


def verdict_of(error: PacketboatError) -> Verdict:
    """Return the verdict on a whole request, or on one message of an answer."""
    if isinstance(error, ApiError):
        if error.status == 408 or isinstance(error, Overloaded):
            return Verdict.REFUSED
        if isinstance(error, Unavailable) and error.status != 501:
            return Verdict.REFUSED
        return Verdict.WRONG if isinstance(error, InvalidRequest) else Verdict.FINAL
    if isinstance(error, ConnectionFailed):
        return Verdict.REFUSED
    return Verdict.FINAL if isinstance(error, NotDone) else Verdict.UNKNOWN


def copy_of(error: PacketboatError) -> PacketboatError:
    """For one of several messages: who raises an error adds to its trace."""
    copy = type(error).__new__(type(error), *error.args)
    copy.args = error.args
    copy.__dict__.update(error.__dict__)
    return copy
