"""The throttles of this process's hubs, and their display."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol

from subscribe_forwarder.state.rate import Beside
from subscribe_forwarder.throttling.flows import Said


class Machine(Beside, Protocol):
    """`machine.MachineThrottle`."""

    @property
    def per_second(self) -> float | None: ...


class Throttling(NamedTuple):
    """The throttles of a process."""

    machine: Machine
    said: Callable[[bytes], Said | None]
    """Returns the capacity that holds for a subscription, by uid."""


class Restraint(NamedTuple):
    """One thing that holds a subscription back, as its status tells."""

    kind: str
    """flow_messages_per_second, flow_max_outstanding, machine; of push, endpoint_…"""
    reason: str
    value: float | None
    until: datetime | None
    """The end of the restraint; None while its reason lasts."""

    def members(self) -> dict[str, Any]:
        return self._asdict()


def of_machine(machine: Machine) -> list[Restraint]:
    if machine.per_second is None:
        return []
    reason = "this forwarder has more to do than it can in time"
    return [Restraint("machine", reason, round(machine.per_second, 1), None)]


def of_flow(said: Said, now_s: float) -> list[Restraint]:
    """Return the capacity that a consumer reported, whole, not this forwarder's part of it."""
    until = datetime.now(UTC) + timedelta(seconds=round(said.until_s - now_s))
    values = {
        "flow_messages_per_second": said.messages_per_second,
        "flow_max_outstanding": said.max_outstanding,
    }
    return [
        Restraint(kind, said.reason, value, until.replace(microsecond=0))
        for kind, value in values.items()
        if value is not None
    ]
