"""Bodies of requests that take long to read are read in a worker process, where they hold up
nobody and are paid for by their tenant (`edge/workshop.py`).

What a body costs is known by its length and by how many values it can have: reading a value takes
up to a tenth of a microsecond, and a byte of it up to a hundredth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from edge.problem import Problem
from edge.workshop import LIMIT_S, TookTooLong, Workshop

SMALL_BYTES = 256 * 1024
"""Such a body is read on the event loop, whatever it holds."""
HERE_BYTES = 2 * 1024 * 1024
MAX_VALUES_HERE = 100_000
"""A longer one is read there if it has at most so many bytes and, by its commas, values."""
T = TypeVar("T")


def dear(body: bytes) -> bool:
    """Whether reading it would hold up others: for decoders that make few objects of each value."""
    size = len(body)
    return size > SMALL_BYTES and (size > HERE_BYTES or body.count(b",") > MAX_VALUES_HERE)


async def read_apart(
    workshop: Workshop | None,
    tenant_id: bytes,
    kind: type[T],
    function: Callable[..., T],
    body: bytes,
    *arguments: Any,
) -> T:
    """What the function makes of the body, in a worker process. It is one of a module, its other
    arguments are of MessagePack, and its result can be made of MessagePack. Without a workshop it
    is called here.

    Raises the Problems that the function raises, 413 for a body that takes too long, and 429.
    """
    if workshop is None:
        return function(body, *arguments)
    try:
        found = await workshop.run(tenant_id, function, bytes(body), *arguments)
    except TookTooLong as error:
        detail = f"Reading the body takes more than {LIMIT_S:g} s of computing time, or too much"
        raise Problem(413, "body-too-large", "Body too large", f"{detail} memory.") from error
    return msgspec.convert(found, kind)
