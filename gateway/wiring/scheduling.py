"""The scheduler role's parts."""

from __future__ import annotations

from gateway.wiring.parts import Shared
from scheduler.opening import open_scheduler
from subscribe_forwarder.fleet import rendezvous


async def open_scheduling(shared: Shared) -> None:
    """Open the work that runs once in the installation."""
    await open_scheduler(
        shared.stack,
        store=shared.store,
        database=shared.database,
        feed=shared.feed,
        home=rendezvous.home,
        stored_limits=shared.metered.stored,
        usage=shared.metered.meter,
    )
