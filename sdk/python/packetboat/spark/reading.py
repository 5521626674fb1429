"""Reads a split from the server: whole, or an error that says why not.

These rules hold:
- without a filter every offset of the split is given, once and in order, or the read fails: each
  record batch has to begin where the last one ended, and the end is where the split says;
- with a filter only the server knows which messages are left out. An answer counts only once its
  Arrow stream has come to its own end, and offsets only grow;
- a connection may break anywhere, and a server may be overloaded: the next request asks for the
  first offset that was not given yet. The read fails when nothing came for `retry_for_s`.
"""

from __future__ import annotations

import binascii
import io
import time
import uuid
from base64 import urlsafe_b64decode
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from packetboat.calls import consuming as calls
from packetboat.errors import ApiError, NotAuthorized, PacketboatError, UnknownOutcome
from packetboat.spark.errors import ReadFailed
from packetboat.spark.pace import Pace, wait
from packetboat.spark.ranges import Split
from packetboat.sync.sender import Sender
from packetboat.tries import Retries

MAX_MESSAGES = 1_000_000
"""The limit of messages of one answer; the server gives no more."""
_TRUNCATED = "offset-truncated"
_UID_CHARS = 24
"""The characters of a message id that hold the topic's uid."""


class ArrowBody(io.RawIOBase):
    """Reads exactly what is asked for, and notices an end that comes too early.

    pyarrow takes the end of a file between two batches for the end of the stream. A whole stream
    says itself where it ends, and nobody reads on after that; so who reads at the end of the file
    has an answer that was cut off.
    """

    def __init__(self, chunks: Iterator[bytes]) -> None:
        super().__init__()
        self._chunks = chunks
        self._chunk = b""
        self._at = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Return `size` bytes. Raises UnknownOutcome where there are fewer."""
        parts = []
        while size > 0:
            if self._at == len(self._chunk):
                chunk = next(self._chunks, None)
                if chunk is None:
                    raise UnknownOutcome("the answer ends within its Arrow stream")
                self._chunk, self._at = chunk, 0
            parts.append(self._chunk[self._at : self._at + size])
            self._at += len(parts[-1])
            size -= len(parts[-1])
        return parts[0] if len(parts) == 1 else b"".join(parts)


def batches_of(chunks: Iterator[bytes]) -> Iterator[pa.RecordBatch]:
    """The record batches of an answer. Raises UnknownOutcome where it is cut off, or garbled."""
    body = ArrowBody(chunks)
    try:
        with pa.ipc.open_stream(pa.PythonFile(body, mode="r")) as stream:
            yield from stream
    except pa.ArrowException as error:
        raise UnknownOutcome(f"the answer is no Arrow stream: {error}") from error


class SplitReader:
    """One read of one split."""

    def __init__(
        self,
        sender: Sender,
        split: Split,
        *,
        filter: str | None = None,
        pace: Pace | None = None,
        retry_for_s: float,
        skips_truncated: bool = False,
    ) -> None:
        self._sender = sender
        self._split = split
        self._filter = filter
        self._pace = pace or Pace(None)
        self._retry_for_s = retry_for_s
        self._skips = skips_truncated or split.from_first
        self._next = split.start
        """All below was given, or does not match."""
        self._given = 0
        """Rows, of the answer that is read."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The server's record batches, without what is beyond the split. Raises ReadFailed, and
        the errors of a call."""
        tries = self._fresh()
        while self._next < self._split.end:
            before = self._next
            try:
                for batch in self._answer():
                    yield batch
                    tries = self._fresh()
                if self._is_over():
                    return
                if self._next == before:
                    raise UnknownOutcome(f"the log ends at offset {before}")
            except PacketboatError as error:
                if self._skipped(error):
                    continue
                self._pause(tries, error)

    def _fresh(self) -> Retries:
        return Retries(self._retry_for_s, True, time.monotonic())

    def _is_over(self) -> bool:
        """Return whether the read is over after a whole answer.

        An answer with a filter ends where the split does, unless it had the most rows of an answer.
        """
        return self._filter is not None and self._given < MAX_MESSAGES

    def _answer(self) -> Iterator[pa.RecordBatch]:
        split, lane = self._split, self._split.lane
        self._given = 0
        call = calls.replay_arrow(
            lane.topic,
            lane.partition,
            self._next,
            end_offset=split.end,
            lane=lane.lane or None,
            max_messages=min(split.end - self._next, MAX_MESSAGES),
            filter=self._filter,
        )
        with self._sender.stream(call) as response:
            for batch in batches_of(self._paced(response.chunks())):
                kept = self._kept(batch)
                if kept.num_rows:
                    self._verify(kept)
                    yield kept
                if self._next >= split.end or kept.num_rows < batch.num_rows:
                    return

    def _paced(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            yield chunk
            self._pace.took(len(chunk))

    def _kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows below the end of the split: an older server may not stop there."""
        if not batch.num_rows or batch.column("offset")[-1].as_py() < self._split.end:
            return batch
        return batch.filter(pc.less(batch.column("offset"), self._split.end))

    def _verify(self, batch: pa.RecordBatch) -> None:
        """Check the offsets of a batch, and advance to its end. Raises ReadFailed."""
        offsets = batch.column("offset")
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        if len(offsets) > 1:
            steps = pc.min_max(pc.subtract(offsets[1:], offsets[:-1])).as_py()
        else:
            steps = {"min": 1, "max": 1}
        in_order = first >= self._next and steps["min"] >= 1
        if not in_order or (
            self._filter is None and (first != self._next or last - first + 1 != len(offsets))
        ):
            raise ReadFailed(
                f"{self._split.lane}: offset {self._next} was to come, and {first} to {last} came "
                f"in {len(offsets)} rows; nothing is given beyond a gap"
            )
        if not self._given:
            self._verify_topic(batch.column("message_id")[0].as_py())
        self._given += len(offsets)
        self._next = last + 1

    def _verify_topic(self, message_id: str) -> None:
        wanted = _uid(self._split.topic_uid)
        if wanted is not None and _uid_of(message_id) not in (None, wanted):
            raise ReadFailed(
                f"{self._split.lane}: the topic was deleted, and another one made in its name"
            )

    def _skipped(self, error: PacketboatError) -> bool:
        """Return whether the error says that messages were truncated, and they may be left out."""
        if not isinstance(error, ApiError) or error.slug != _TRUNCATED:
            return False
        first = error.problem.members.get("first_offset")
        if not self._skips or not isinstance(first, int) or first <= self._next:
            raise ReadFailed(
                f"{self._split.lane}: nothing is stored at offset {self._next} any more, the first "
                f"there is, is {first}. Begin there, or read with on_truncated=skip; "
                "a topic that keeps its messages for longer has a longer retention"
            ) from error
        self._next = first
        return True

    def _pause(self, tries: Retries, error: PacketboatError) -> None:
        if isinstance(error, NotAuthorized):
            raise refused(error) from error
        pause_s = tries.pause_s(error, time.monotonic())
        if pause_s is None:
            if isinstance(error, ReadFailed):
                raise error
            raise ReadFailed(
                f"{self._split.lane}, at offset {self._next} of {self._split.start} to "
                f"{self._split.end}: {error}"
            ) from error
        wait(pause_s)


def refused(error: NotAuthorized) -> ReadFailed:
    """Return the error for a read that the server refused."""
    if error.status == 401:
        return ReadFailed(
            f"{error}. The token is not valid, or not any more: a read that lasts needs an API "
            "key, or the options client_id and client_secret"
        )
    return ReadFailed(f"{error}. Reading needs the permission `read` on the topic")


def _uid(text: str | None) -> bytes | None:
    try:
        return uuid.UUID(text).bytes if text else None
    except ValueError:
        return None


def _uid_of(message_id: str) -> bytes | None:
    try:
        return urlsafe_b64decode(message_id[:_UID_CHARS])[1:17]
    except binascii.Error:
        return None
