"""Decodes bodies that take long in a worker process.

There they hold up nobody, and count for the CPU time of their tenant (`edge/process_pool.py`). The
cost of a body is estimated by its length and by the number of values that it can have: decoding a
value takes up to a tenth of a microsecond, and a byte of it up to a hundredth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from edge.problem import Problem
from edge.process_pool import LIMIT_S, ProcessPool, TookTooLong

SMALL_BYTES = 256 * 1024
"""Length up to which a body is decoded on the event loop, with any content."""
HERE_BYTES = 2 * 1024 * 1024
MAX_VALUES_HERE = 100_000
"""Most values, by its commas, of a longer body that is decoded on the event loop."""
T = TypeVar("T")


def dear(body: bytes) -> bool:
    """Return whether decoding a body in this process would hold up other requests."""
    size = len(body)
    return size > SMALL_BYTES and (size > HERE_BYTES or body.count(b",") > MAX_VALUES_HERE)


async def read_in_worker(
    process_pool: ProcessPool | None,
    tenant_id: bytes,
    kind: type[T],
    function: Callable[..., T],
    body: bytes,
    *arguments: Any,
) -> T:
    """Return the result of a function of the body, called in a worker process.

    It must be a function of a module. Its other arguments are of MessagePack, and its result can be
    made from MessagePack. Without a process pool it is called here.

    Raises the Problems that the function raises, 413 for a body that takes too long, and 429.
    """
    if process_pool is None:
        return function(body, *arguments)
    try:
        found = await process_pool.run(tenant_id, function, bytes(body), *arguments)
    except TookTooLong as error:
        detail = f"Reading the body takes more than {LIMIT_S:g} s of computing time, or too much"
        raise Problem.of("body-too-large", f"{detail} memory.") from error
    return msgspec.convert(found, kind)
