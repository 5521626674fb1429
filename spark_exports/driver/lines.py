"""The driver's connection to its runner: lines in, lines out.

A thread of its own reads stdin, so the driver learns of a Cancel at any time, and of the end of
stdin: after a runner died, nothing may be committed any more. `check` is called before each commit.
A commit under way goes on, since its outcome must be known.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import BinaryIO

import msgspec
from packetboat.models.export_runs import LanePosition, LaneRange

from spark_exports.driver.errors import BadOrder, Stopped
from spark_exports.order import Cancel, Done, Failed, FromDriver, FromRunner, Opened, Order, Ranges

_decoder = msgspec.json.Decoder(FromRunner)
_encoder = msgspec.json.Encoder()


class Lines:
    """The lines of one driver: `order` is read first, and once."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink
        self._said = threading.Lock()
        self._ranges: queue.SimpleQueue[list[LaneRange] | None] = queue.SimpleQueue()
        self._stop = threading.Lock()
        self._why: str | None = None
        self._is_finished = False
        self._on_stop: Callable[[], None] | None = None

    def order(self) -> Order:
        """Read the order; from now on the runner may cancel the run. Raises BadOrder."""
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
        """Send a message; if the runner is gone, the run is stopped."""
        line = _encoder.encode(message) + b"\n"
        try:
            with self._said:
                self._sink.write(line)
                self._sink.flush()
        except BrokenPipeError:
            self.stop("the runner is gone")

    def ask(self, positions: list[LanePosition]) -> list[LaneRange]:
        """Send the positions and return the ranges, which are stored by then. Raises Stopped."""
        self.say(Opened(positions))
        ranges = self._ranges.get()
        if ranges is None:
            raise Stopped(self._why or "")
        return ranges

    def check(self) -> None:
        """Raise Stopped if nothing more is wanted."""
        with self._stop:
            if self._why is not None:
                raise Stopped(self._why)

    @property
    def is_stopped(self) -> bool:
        return self._why is not None

    def on_stop(self, call: Callable[[], None]) -> None:
        """Set the function that ends the work under way; it is called at once if the run is stopped
        already.
        """
        with self._stop:
            self._on_stop = call
            is_late = self._why is not None
        if is_late:
            call()

    def finish(self, answer: Done | Failed) -> None:
        """Send the answer; after that nothing from the runner stops the driver any more."""
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
    """Return the lines over this process's stdin and stdout.

    All other output, of libraries and child processes, goes to stderr from now on.
    """
    source = os.fdopen(os.dup(0), "rb")
    sink = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return Lines(source, sink)
