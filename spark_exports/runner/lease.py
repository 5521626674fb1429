"""The lease of a run, by our own clock, and calls that are worth making only while it lasts."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog
from packetboat.errors import Conflict, InvalidRequest, NotFound, PacketboatError

from spark_exports.runner import metrics

T = TypeVar("T")
FIRST_PAUSE_S = 0.2
MAX_PAUSE_S = 5.0
log = structlog.get_logger()


class LeaseLost(Exception):
    """The run belongs to another runner by now, or to none."""


class RunRefused(Exception):
    """The platform refuses for good; `code` and the text say why."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class Lease:
    """A lease, counted from before the call that got it, so it ends here before it ends on the
    server.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends_s = time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        return self._ends_s - time.monotonic()

    def extend(self, asked_s: float) -> None:
        """Extend the lease, which was renewed by a call that was made at `asked_s`."""
        self._ends_s = asked_s + self._seconds

    async def try_while_it_lasts(self, what: str, call: Callable[[], Awaitable[T]]) -> T:
        """Call until there is an answer. Raises LeaseLost or RunRefused."""
        pause_s = FIRST_PAUSE_S
        while (left_s := self.left_s) > 0:
            try:
                async with asyncio.timeout(left_s):
                    return await call()
            except TimeoutError:
                break
            except Conflict as error:
                raise LeaseLost(str(error)) from error
            except (InvalidRequest, NotFound) as error:
                raise RunRefused(error.slug, str(error)) from error
            except PacketboatError as error:
                metrics.failed_calls.labels(what).inc()
                log.warning("call-failed", call=what, error=str(error))
            await asyncio.sleep(min(random.uniform(pause_s / 2, pause_s), max(self.left_s, 0)))
            pause_s = min(pause_s * 2, MAX_PAUSE_S)
        raise LeaseLost("the lease ended before the platform answered")
