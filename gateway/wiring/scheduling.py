"""The scheduler role's parts."""

from __future__ import annotations

from gateway.wiring.parts import Shared
from scheduler import settings as scheduler_settings
from scheduler.service import Scheduler
from subscribe_forwarder.fleet import rendezvous


async def open_scheduling(shared: Shared) -> None:
    """Open the work that runs once in the installation."""
    stack = shared.stack
    scheduler = Scheduler(
        store=shared.store,
        database=shared.database,
        feed=shared.feed,
        settings=scheduler_settings.load(),
        home=rendezvous.home,
        stored_limits=shared.metered.stored,
        usage=shared.metered.meter,
    )
    await scheduler.start()
    stack.push_async_callback(scheduler.close)
