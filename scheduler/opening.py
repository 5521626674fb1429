"""The door of the scheduler: the function by which the gateway opens it."""

from __future__ import annotations

from contextlib import AsyncExitStack

from edge.quota import Usage
from metadata.database import Database
from metadata.feed import ChangeFeed
from metadata.tenancy.quotas import TenantLimit
from scheduler import settings
from scheduler.balancing.view import Home
from scheduler.service import Scheduler
from store_nodes.client import StoreClient


async def open_scheduler(
    stack: AsyncExitStack,
    *,
    store: StoreClient,
    database: Database,
    feed: ChangeFeed,
    home: Home,
    stored_limits: TenantLimit,
    usage: Usage,
) -> None:
    """Open the work that one process of the installation does, until `stack` is closed.

    The parameters are those of a Scheduler. Raises ValueError for a wrong setting.
    """
    scheduler = Scheduler(
        store=store,
        database=database,
        feed=feed,
        settings=settings.load(),
        home=home,
        stored_limits=stored_limits,
        usage=usage,
    )
    await scheduler.start()
    stack.push_async_callback(scheduler.close)
