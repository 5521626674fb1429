"""Streams: one answer after the other, as lines."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator

from packetboat.aio.sender import AsyncSender
from packetboat.aio.waiting import pause
from packetboat.calls.call import StreamCall
from packetboat.calls.streams import Line, Reopening, Splitter
from packetboat.errors import PacketboatError


async def lines_of(
    sender: AsyncSender, call: StreamCall, timeout_s: float | None = None
) -> AsyncGenerator[bytes, None]:
    """Yield the lines of one answer, which begins within `timeout_s`."""
    async with sender.stream(call, timeout_s) as response:
        splitter = Splitter()
        async for chunk in response.chunks():
            for line in splitter.feed(chunk):
                yield line


async def lines(
    sender: AsyncSender, reopening: Reopening, timeout_s: float | None = None
) -> AsyncGenerator[Line, None]:
    """Yield the lines of a stream, over one answer after another; each begins within
    `timeout_s`.
    """
    while (call := reopening.call(time.monotonic())) is not None:
        cause: PacketboatError | None = None
        try:
            async with sender.stream(call, timeout_s) as response:
                reopening.opened(time.monotonic())
                splitter = Splitter()
                async for chunk in response.chunks():
                    for text in splitter.feed(chunk):
                        yield reopening.line(text)
        except PacketboatError as error:
            cause = error
        if not reopening.over:
            await pause(reopening.pause_s(cause, time.monotonic()))
