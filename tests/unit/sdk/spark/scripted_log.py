"""A lane of a partition whose server does what a test tells it to, over a transport without
sockets."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import chain
from urllib.parse import parse_qs, urlsplit

import msgspec
import pyarrow as pa
from packetboat.errors import UnknownOutcome
from packetboat.options import Options
from packetboat.sync.sender import Sender
from packetboat.transport import Request, Response

UID = bytes(range(16))
CHUNK_BYTES = 100
SCHEMA = pa.schema(
    [
        pa.field("message_id", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("publish_time", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("key", pa.string()),
        pa.field("attributes", pa.map_(pa.string(), pa.string()), nullable=False),
        pa.field("content_type", pa.string()),
        pa.field("data", pa.binary(), nullable=False),
        pa.field("publisher_id", pa.string()),
        pa.field("priority", pa.int32(), nullable=False),
        pa.field("traceparent", pa.string()),
    ]
)
Mishap = Callable[["Answer"], Iterator[bytes]]


def message_id(offset: int, uid: bytes = UID) -> str:
    raw = b"\1" + uid + bytes(5) + offset.to_bytes(8, "big")
    return base64.urlsafe_b64encode(raw).decode()


def batch(offsets: list[int], **columns: list[object]) -> pa.RecordBatch:
    """Return a record batch as the server makes it."""
    count = len(offsets)
    values: dict[str, list[object]] = {
        "message_id": [message_id(offset) for offset in offsets],
        "partition": [0] * count,
        "offset": list(offsets),
        "publish_time": [datetime(2026, 1, 1, tzinfo=UTC)] * count,
        "key": [None] * count,
        "attributes": [[("n", str(offset))] for offset in offsets],
        "content_type": ["application/json"] * count,
        "data": [b'{"n":%d}' % offset for offset in offsets],
        "publisher_id": [None] * count,
        "priority": [0] * count,
        "traceparent": [None] * count,
    } | columns
    return pa.RecordBatch.from_pydict(values, schema=SCHEMA)


def stream_of(batches: list[pa.RecordBatch], *, whole: bool = True) -> bytes:
    sink = io.BytesIO()
    writer = pa.ipc.new_stream(sink, SCHEMA)
    for each in batches:
        writer.write_batch(each)
    if not whole:
        return sink.getvalue()
    writer.close()
    return sink.getvalue()


def chunks_of(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), CHUNK_BYTES):
        yield body[start : start + CHUNK_BYTES]


class Answer:
    """One answer of the log, before anything befalls it."""

    def __init__(self, status: int, headers: Mapping[str, str], batches: list[pa.RecordBatch]):
        self.status = status
        self.headers = headers
        self.batches = batches
        self.body: Iterator[bytes] = iter(())

    def chunks(self) -> Iterator[bytes]:
        return self.body

    def read(self) -> bytes:
        return b"".join(self.body)


def cut_after(count_bytes: int) -> Mishap:
    """Cut the connection within the answer."""

    def mishap(answer: Answer) -> Iterator[bytes]:
        yield from chunks_of(stream_of(answer.batches)[:count_bytes])
        raise UnknownOutcome("cut")

    return mishap


def ended_after(batches: int) -> Mishap:
    """The connection ends, as if all was there, between two record batches."""
    return lambda answer: chunks_of(stream_of(answer.batches[:batches], whole=False))


def sent(*offsets: list[int], uid: bytes = UID) -> Mishap:
    """Send these record batches, whatever the request asks for."""

    def mishap(answer: Answer) -> Iterator[bytes]:
        made = [
            batch(each, message_id=[message_id(offset, uid) for offset in each]) for each in offsets
        ]
        return chunks_of(stream_of(made))

    return mishap


def refused(status: int, slug: str = "no", after: str | None = None, **members: object) -> Mishap:
    """Send a problem instead of an answer."""

    def mishap(answer: Answer) -> Iterator[bytes]:
        answer.status = status
        answer.headers = {} if after is None else {"retry-after": after}
        body = {"type": f"https://x/{slug}", "status": status, "title": slug} | members
        yield msgspec.json.encode(body)

    return mishap


class ScriptedLog:
    """The offsets `first` … `end` − 1, `per_batch` in a record batch. A transport.

    Each request has the next of `mishaps`; after them all goes well. A server that is `old` does
    not know `end_offset`. With a filter it gives every third message.
    """

    def __init__(
        self, end: int, *mishaps: Mishap, first: int = 0, per_batch: int = 10, old: bool = False
    ) -> None:
        self.first, self.end = first, end
        self._per_batch = per_batch
        self._mishaps = list(mishaps)
        self._old = old
        self.asked: list[dict[str, str]] = []
        self.sent_bytes = 0

    def sender(self) -> Sender:
        return Sender(Options(retry_for_s=0.0), self)

    def send(self, request: Request) -> Response:
        raise AssertionError(f"{request.path} is not to be asked")

    @contextmanager
    def stream(self, request: Request) -> Iterator[Answer]:
        query = {name: value for name, (value,) in parse_qs(urlsplit(request.path).query).items()}
        self.asked.append(query)
        answer = Answer(200, {}, self._batches(query))
        if self._mishaps:
            body = self._mishaps.pop(0)(answer)
            # The status is known before anything of the body is read.
            first = next(body, None)
            answer.body = self._counted(chain([] if first is None else [first], body))
        else:
            answer.body = self._counted(chunks_of(stream_of(answer.batches)))
        yield answer

    def close(self) -> None:
        pass

    def _counted(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self.sent_bytes += len(chunk)
            yield chunk

    def _batches(self, query: Mapping[str, str]) -> list[pa.RecordBatch]:
        end = self.end if self._old else min(self.end, int(query["end_offset"]))
        offsets = range(int(query["offset"]), end)
        taken = [each for each in offsets if "filter" not in query or each % 3 == 0]
        taken = taken[: int(query["max_messages"])]
        step = self._per_batch
        return [batch(taken[at : at + step]) for at in range(0, len(taken), step)]
