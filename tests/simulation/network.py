"""The network between nodes: delay, loss, duplication, reordering, cuts of single directions."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.options import Options
from tests.simulation.scheduler import Scheduler

Deliver = Callable[[int, int, bytes], None]
_LABELS = tuple(f"message {tag}" for tag in range(256))
_TAG_AT = 1
"""A message is a msgpack array that starts with its tag."""


class SimNetwork:
    """`deliver(to, source, payload)` is called for what arrives.

    With `tcp` a link keeps its order and loses only what is in flight when its connection breaks
    (`break_link`); without it every message fends for itself.
    """

    def __init__(self, scheduler: Scheduler, options: Options, deliver: Deliver) -> None:
        self._scheduler = scheduler
        self._options = options
        self._rng = scheduler.fork("network")
        self._deliver = deliver
        self._cut: dict[tuple[int, int], None] = {}
        self._last: dict[tuple[int, int], int] = {}
        self._epoch: dict[tuple[int, int], int] = {}
        self.calm = False
        self.duplicated = 0

    def send(self, source: int, to: int, payload: bytes) -> None:
        options, rng = self._options, self._rng
        link = (source, to)
        if link in self._cut:
            return
        label = _LABELS[payload[_TAG_AT]]
        delay = self.delay()
        if options.tcp:
            at = max(self._scheduler.now + delay, self._last.get(link, 0))
            self._last[link] = at
            epoch = self._epoch.get(link, 0)
            self._scheduler.after(
                at - self._scheduler.now,
                label,
                self._arrive,
                link,
                epoch,
                payload,
            )
            return
        if not self.calm:
            if rng.random() < options.loss:
                return
            if rng.random() < options.duplication:
                self.duplicated += 1
                self._scheduler.after(self.delay(), label, self._arrive, link, 0, payload)
        self._scheduler.after(delay, label, self._arrive, link, 0, payload)

    def delay(self) -> int:
        """Return the delay of one message; also used for clients."""
        mean = self._options.delay_us
        delay = mean // 2 + self._rng.randrange(mean)
        if not self.calm and self._rng.random() < self._options.spike:
            delay *= 100
        return delay

    def _arrive(self, link: tuple[int, int], epoch: int, payload: bytes) -> None:
        if link in self._cut or self._epoch.get(link, 0) != epoch:
            return
        self._deliver(link[1], link[0], payload)

    def cut(self, source: int, to: int) -> None:
        self._cut[(source, to)] = None

    def mend(self, a: int, b: int) -> None:
        """Both directions between two nodes work again."""
        self._cut.pop((a, b), None)
        self._cut.pop((b, a), None)

    def heal(self) -> None:
        self._cut.clear()

    def is_cut(self, a: int, b: int) -> bool:
        return (a, b) in self._cut or (b, a) in self._cut

    def break_link(self, a: int, b: int) -> None:
        """The connection is gone, and what was in flight on it."""
        if self._options.tcp:
            for link in ((a, b), (b, a)):
                self._epoch[link] = self._epoch.get(link, 0) + 1
                self._last.pop(link, None)
