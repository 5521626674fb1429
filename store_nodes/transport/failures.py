"""Errors of errors.py as `Failed` frames, and back."""

from __future__ import annotations

from typing import cast

from store_nodes.errors import (
    Conflict,
    DeadlinePassed,
    DedupKnown,
    DiskFull,
    Known,
    NotAllowed,
    NotDone,
    NotLeader,
    NotSupported,
    OutcomeUnknown,
    Overloaded,
    QueueExists,
    QueueNotFound,
    QueueSealed,
    QueueTruncated,
    SequenceGap,
    StoreError,
    TooLarge,
    Unavailable,
)
from store_nodes.wire import Failed

_plain: dict[int, type[StoreError]] = {
    cls.code: cls
    for cls in (
        NotDone,
        Unavailable,
        Overloaded,
        DiskFull,
        TooLarge,
        DeadlinePassed,
        QueueNotFound,
        QueueExists,
        NotSupported,
        NotAllowed,
        OutcomeUnknown,
    )
}

_STAGED = 1
_OTHER_BODY = 2
Detail = tuple[int | bytes | tuple[int | bytes, ...] | None, ...]


def encode(request_id: int, error: StoreError, *, decided: bool) -> Failed:
    """Return the frame of an error."""
    return Failed(request_id, error.code, str(error), decided, _detail(error))


def _detail(error: StoreError) -> Detail:
    match error:
        case NotLeader():
            return (error.hint,)
        case SequenceGap():
            return (error.expected,)
        case QueueSealed():
            return (error.offset, *error.successors)
        case QueueTruncated():
            return (error.first_offset,)
        case DedupKnown():
            return tuple(
                (index, known.position, _flags(known), known.queue, known.log_time_us)
                for index, known in error.known.items()
            )
        case Conflict():
            return (error.current,)
        case _:
            return ()


def _flags(known: Known) -> int:
    return _STAGED * known.staged | _OTHER_BODY * (not known.same_body)


def decode(failed: Failed) -> StoreError:
    """Return the error of a frame; a code of a later version is `OutcomeUnknown`, the safe
    reading.
    """
    detail = failed.detail
    match failed.code:
        case NotLeader.code:
            return NotLeader(cast("int | None", detail[0]))
        case SequenceGap.code:
            return SequenceGap(cast(int, detail[0]))
        case QueueSealed.code:
            successors = cast("tuple[tuple[int, bytes], ...]", detail[1:])
            return QueueSealed(cast(int, detail[0]), successors)
        case QueueTruncated.code:
            return QueueTruncated(cast(int, detail[0]))
        case DedupKnown.code:
            rows = cast("tuple[tuple[int, int, int, bytes, int], ...]", detail)
            return DedupKnown(
                {
                    index: Known(at, bool(flags & _STAGED), not flags & _OTHER_BODY, queue, time_us)
                    for index, at, flags, queue, time_us in rows
                }
            )
        case Conflict.code:
            return Conflict(cast(int, detail[0]))
        case code:
            return _plain.get(code, OutcomeUnknown)(failed.text)
