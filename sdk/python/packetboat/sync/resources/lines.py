# Generated from aio/resources/lines.py: `make generate`. Do not edit.
"""Streams: one answer after the other, as lines."""

from __future__ import annotations

import time
from collections.abc import Generator

from packetboat.calls.call import StreamCall
from packetboat.calls.streams import Line, Reopening, Splitter
from packetboat.errors import PacketboatError
from packetboat.sync.sender import Sender
from packetboat.sync.waiting import pause


def lines_of(
    sender: Sender, call: StreamCall, timeout_s: float | None = None
) -> Generator[bytes, None, None]:
    """Yield the lines of one answer, which begins within `timeout_s`."""
    with sender.stream(call, timeout_s) as response:
        splitter = Splitter()
        for chunk in response.chunks():
            yield from splitter.feed(chunk)


def lines(
    sender: Sender, reopening: Reopening, timeout_s: float | None = None
) -> Generator[Line, None, None]:
    """Yield the lines of a stream, over one answer after another; each begins within
    `timeout_s`.
    """
    while (call := reopening.call(time.monotonic())) is not None:
        cause: PacketboatError | None = None
        try:
            with sender.stream(call, timeout_s) as response:
                reopening.opened(time.monotonic())
                splitter = Splitter()
                for chunk in response.chunks():
                    for text in splitter.feed(chunk):
                        yield reopening.line(text)
        except PacketboatError as error:
            cause = error
        if not reopening.over:
            pause(reopening.pause_s(cause, time.monotonic()))
