"""The runner's end of a driver: lines in, lines out.

Stdin is read by a thread of its own, so a Cancel is heard whatever the driver is doing, and so is
its end: a runner that died wants nothing committed any more. `check` is called before each commit;
a commit under way goes on, for its outcome has to be known.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import BinaryIO

import msgspec

from spark_exports.driver.errors import BadOrder, Stopped
from spark_exports.order import (
    Cancel,
    Done,
    Failed,
    FromDriver,
    FromRunner,
    Opened,
    Order,
    Position,
    Range,
    Ranges,
)

_decoder = msgspec.json.Decoder(FromRunner)
_encoder = msgspec.json.Encoder()


class Lines:
    """`order` first, and once; `close` at the end."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink
        self._said = threading.Lock()
        self._ranges: queue.SimpleQueue[list[Range] | None] = queue.SimpleQueue()
        self._stop = threading.Lock()
        self._why: str | None = None
        self._is_finished = False
        self._on_stop: Callable[[], None] | None = None

    def order(self) -> Order:
        """What is to be done. From now on the runner may cancel it. Raises BadOrder."""
        line = self._source.readline()
        try:
            order = _decoder.decode(line)
        except msgspec.DecodeError as error:
            raise BadOrder(f"the first line is no order: {error}") from None
        if not isinstance(order, Order):
            raise BadOrder("the first line is no order")
        threading.Thread(target=self._listen, name="runner", daemon=True).start()
        return order

    def say(self, message: FromDriver) -> None:
        """A runner that is gone hears nothing, which is found out by its end of stdin."""
        line = _encoder.encode(message) + b"\n"
        try:
            with self._said:
                self._sink.write(line)
                self._sink.flush()
        except BrokenPipeError:
            self.stop("the runner is gone")

    def ask(self, positions: list[Position]) -> list[Range]:
        """The manifest. Raises Stopped."""
        self.say(Opened(positions))
        ranges = self._ranges.get()
        if ranges is None:
            raise Stopped(self._why or "")
        return ranges

    def check(self) -> None:
        """Raises Stopped when nothing more is wanted."""
        with self._stop:
            if self._why is not None:
                raise Stopped(self._why)

    @property
    def is_stopped(self) -> bool:
        return self._why is not None

    def on_stop(self, call: Callable[[], None]) -> None:
        """What ends the work under way; called at once if it is late."""
        with self._stop:
            self._on_stop = call
            is_late = self._why is not None
        if is_late:
            call()

    def finish(self, answer: Done | Failed) -> None:
        """The last word. What the runner does after it stops nothing any more."""
        with self._stop:
            self._is_finished = True
        self.say(answer)

    def stop(self, why: str) -> None:
        with self._stop:
            if self._why is not None or self._is_finished:
                return
            self._why = why
            call = self._on_stop
        self._ranges.put(None)
        if call is not None:
            call()

    def _listen(self) -> None:
        for line in self._source:
            message = _decoder.decode(line)
            if isinstance(message, Cancel):
                self.stop("the run was cancelled")
            elif isinstance(message, Ranges):
                self._ranges.put(message.ranges)
        self.stop("the runner is gone")


def of_process() -> Lines:
    """Over this process's stdin and stdout. Whatever else is printed, by libraries or by children,
    goes to stderr from now on."""
    source = os.fdopen(os.dup(0), "rb")
    sink = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return Lines(source, sink)
