"""The body of an answer as the file that pyarrow reads an Arrow stream from."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pyarrow as pa

from packetboat.errors import UnknownOutcome


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
