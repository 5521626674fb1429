"""Small named counters, which are set by compare and set."""

from __future__ import annotations

from store_nodes.commands import CompareAndSet
from store_nodes.errors import Conflict, TooLarge
from store_nodes.machine.outcomes import CommandRefused, CounterSet, Outcome

MAX_COUNTERS = 1024
MAX_COUNTER_NAME_BYTES = 64


def compare_and_set(counters: dict[str, int], command: CompareAndSet) -> Outcome:
    """Set a counter if it has the expected value.

    A counter that was never set is 0, and one set to 0 takes no memory.
    """
    name = command.name
    if len(name.encode()) > MAX_COUNTER_NAME_BYTES:
        return CommandRefused(
            b"", TooLarge(f"a counter's name is over {MAX_COUNTER_NAME_BYTES} bytes")
        )
    current = counters.get(name, 0)
    if current != command.expected:
        return CommandRefused(b"", Conflict(current))
    if command.new == 0:
        counters.pop(name, None)
    elif name in counters or len(counters) < MAX_COUNTERS:
        counters[name] = command.new
    else:
        return CommandRefused(b"", TooLarge(f"over {MAX_COUNTERS} counters"))
    return CounterSet(name, command.new)
