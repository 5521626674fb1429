"""The throttles of this process's hubs, and their display."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from openapi.flow import Throttle
from subscribe_forwarder.delivery.throttling.flows import Capacity
from subscribe_forwarder.delivery.throttling.machine import MachineThrottle


class Throttling(NamedTuple):
    """The throttles of a process."""

    machine: MachineThrottle
    said: Callable[[bytes], Capacity | None]
    """Returns the capacity that holds for a subscription, by uid."""


def of_machine(machine: MachineThrottle) -> list[Throttle]:
    if machine.per_second is None:
        return []
    reason = "this forwarder has more to do than it can in time"
    return [Throttle("machine", reason, round(machine.per_second, 1), None)]


def of_flow(said: Capacity, now_s: float) -> list[Throttle]:
    """Return the capacity that a consumer reported, whole, not this forwarder's part of it."""
    until = datetime.now(UTC) + timedelta(seconds=round(said.until_s - now_s))
    values = {
        "flow_messages_per_second": said.messages_per_second,
        "flow_max_outstanding": said.max_outstanding,
    }
    return [
        Throttle(kind, said.reason, value, until.replace(microsecond=0))
        for kind, value in values.items()
        if value is not None
    ]
