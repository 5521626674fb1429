"""Encodes leased messages for consumers: as JSON, or as a binary page.

Both are encodings of the same parts: what a pull took from one reader each (`Taken`). A client that
accepts `PAGE_TYPE` gets a page, which is one msgpack value:

    page    = [1, [part, …]]
    part    = [token, partition, runs, message ids, messages]
    token   = text: with a number, from 0, it is the ack id of a message of the part (`ack_id.py`);
              nil where the messages are acked already
    runs    = [[offset, messages, attempt, publish time in µs since 1970], …], together all messages
    message ids = one text, `message_id.ID_CHARS` characters for each message
    message = [data, content type, key, attributes, publisher id, priority, scheduled time in µs,
               time to live in ms, nil, traceparent, nil, tracestate]

Data is bytes as they were published. Absent values are nil or 0, and a reader ignores members
after those that it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, repeat
from typing import Any, NamedTuple

import msgspec

from openapi.consume import PAGE_TYPE
from openapi.subscriptions import DeliveryValue
from store_nodes.record_batch import Message
from subscribe_forwarder.delivery.ack_id import MAX_RUNS, Run
from subscribe_forwarder.delivery.reader import Taken
from subscribe_forwarder.delivery.reading.batch import BatchRange
from subscribe_forwarder.delivery.reading.render import (
    Deliveries,
    deliveries,
    deliveries_without_ack_ids,
    pull_body,
)

VERSION = 1
KEPT_BUFFER_BYTES = 1024 * 1024
"""The size above which the buffer of a page is given back."""


class Encoding(NamedTuple):
    """One way to encode the messages of an answer."""

    content_type: bytes
    parts: Callable[[Taken, bool], list[Any]]
    """Returns parts with the messages of one reader as they are now. The flag says that they need
    acks, and so get ack ids."""
    body: Callable[[Sequence[Any]], bytes]
    """Returns the body of an answer with these parts."""


def encoding_of(accept: bytes | None, guarantee: DeliveryValue) -> Encoding:
    """Return the page if the client accepts it, else JSON.

    An exactly-once lease has the ack id that a page would not name in full: those answers are JSON.
    """
    binary = accept is not None and PAGE_TYPE.encode() in accept and guarantee != "exactly_once"
    return PAGE if binary else JSON


def json_parts(taken: Taken, needs_acks: bool) -> list[Deliveries]:
    """Return messages as JSON objects, each with its attempt and its ack id, in one part."""
    ledger, renderer = taken.reader.ledger, taken.reader.tail.renderer
    offsets = taken.offsets
    fragments: list[bytes] = []
    for batch, low, high in taken.ranges:
        fragments += batch.fragments(low, high, renderer)
    attempts = map(ledger.attempt, offsets) if ledger.has_failures else None
    if not needs_acks:
        return [deliveries_without_ack_ids(fragments, attempts or repeat(1))]
    turns = repeat(1) if not ledger.has_failures else map(ledger.exact.turn, offsets)
    return [deliveries(fragments, taken.minter.mint_all(offsets, turns), attempts)]


class _Piece(NamedTuple):
    """Messages of one batch that follow one another, all of the same attempt."""

    range: BatchRange
    attempt: int
    turn: int


class Part(NamedTuple):
    """A part of a page, as it is encoded."""

    token: str | None
    partition: int
    runs: list[tuple[int, int, int, int]]
    message_ids: str
    messages: list[Message]


def page_parts(taken: Taken, needs_acks: bool) -> list[Part]:
    """Return messages as parts of a page; each has one token of at most `MAX_RUNS` runs."""
    parts: list[Part] = []
    pieces: list[_Piece] = []
    runs: list[Run] = []
    for piece in _pieces(taken):
        if not _joined(runs, piece):
            if len(runs) == MAX_RUNS:
                parts.append(_part(taken, pieces, runs if needs_acks else ()))
                pieces, runs = [], []
            offsets = piece.range.offsets
            runs.append(Run(offsets.start, len(offsets), piece.turn))
        pieces.append(piece)
    parts.append(_part(taken, pieces, runs if needs_acks else ()))
    return parts


def page_body(parts: Sequence[Part]) -> bytes:
    """Return the body of a page."""
    _encoder.encode_into((VERSION, parts), _buffer)
    body = bytes(_buffer)
    if len(body) > KEPT_BUFFER_BYTES:
        _buffer.clear()
    return body


def _pieces(taken: Taken) -> Iterator[_Piece]:
    ledger = taken.reader.ledger
    if not ledger.has_failures:
        for one in taken.ranges:
            yield _Piece(one, 1, 1)
        return

    def lease(offset: int) -> tuple[int, int]:
        return ledger.attempt(offset), ledger.exact.turn(offset)

    for batch, low, high in taken.ranges:
        for (attempt, turn), same in groupby(range(batch.base + low, batch.base + high), lease):
            count = sum(1 for _ in same)
            yield _Piece(BatchRange(batch, low, low + count), attempt, turn)
            low += count


def _joined(runs: list[Run], piece: _Piece) -> bool:
    """Add a piece to the last run if it goes on with it; return whether it does."""
    if not runs:
        return False
    first, count, turn = runs[-1]
    offsets = piece.range.offsets
    if offsets.start != first + count or piece.turn != turn:
        return False
    runs[-1] = Run(first, count + len(offsets), turn)
    return True


def _part(taken: Taken, pieces: Sequence[_Piece], runs: Sequence[Run]) -> Part:
    """Return one part of a page; without runs, its messages have no ack ids."""
    renderer = taken.reader.tail.renderer
    messages: list[Message] = []
    ids: list[bytes] = []
    for (batch, low, high), _, _ in pieces:
        messages += batch.shown()[low:high]
        ids.append(batch.message_ids(renderer, low, high))
    return Part(
        taken.minter.token(runs).decode() if runs else None,
        taken.reader.partition.partition,
        [
            (one.offsets.start, len(one.offsets), attempt, one.batch.log_time_us)
            for one, attempt, _ in pieces
        ],
        b"".join(ids).decode(),
        messages,
    )


_encoder = msgspec.msgpack.Encoder()
_buffer = bytearray()
"""The buffer into which pages are encoded: one that grows anew for each costs twice as much."""
JSON = Encoding(b"application/json", json_parts, pull_body)
PAGE = Encoding(PAGE_TYPE.encode(), page_parts, page_body)
