"""The scheduler role: one of its processes leads and does the work, the others wait to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from edge.quota import NO_LIMITS, Usage
from metadata.database import Database
from metadata.delivery.ack_history import AckHistoryRepository
from metadata.delivery.due import DueRepository
from metadata.delivery.fleet import FleetRepository
from metadata.delivery.forwarded import ForwardedRepository
from metadata.delivery.hints import HintRepository
from metadata.delivery.publications import PublicationRepository
from metadata.exports.pins import ExportPinRepository
from metadata.exports.sweep import ExportSweepRepository
from metadata.feed import ChangeFeed
from metadata.locks.fenced import FencedDatabase
from metadata.locks.locks import Lock, LockRepository
from metadata.subscriptions.dead_letters import DeadLetterRepository
from metadata.subscriptions.redrives import RedriveRepository
from metadata.tenancy.audit import AuditLog
from metadata.tenancy.quotas import TenantLimit
from metadata.tenancy.usage_hours import UsageHours
from metadata.topics.placements import PlacementRepository
from metadata.topics.retention import RetentionRepository
from metadata.topics.schedules import ScheduleRepository
from metadata.topics.topics import TopicRepository
from outbox import Outbox
from scheduler.backlogs import Backlogs
from scheduler.backup_age import BackupAge
from scheduler.balancing.balancer import Balancer
from scheduler.balancing.view import Home
from scheduler.cron import Cron
from scheduler.due_loop import DueLoop
from scheduler.export_keeper import ExportKeeper
from scheduler.forwarding import Forwarding
from scheduler.job_keeper import JobKeeper
from scheduler.keeper import Keeper
from scheduler.leader import Leader
from scheduler.limits import DEFAULT_AGE_S
from scheduler.pruning import Pruning
from scheduler.publications import PublicationSweep
from scheduler.redriving import Redriving
from scheduler.settings import SchedulerSettings
from scheduler.sizes import Sizes
from scheduler.stored_meter import StoredMeter
from scheduler.term import Term
from scheduler.topic_map import TopicMap
from scheduler.truncator import Truncator
from store_nodes.client import StoreClient

DAY_S = 86_400.0
EXPORT_RUNS_KEPT_S = 90 * DAY_S


class Scheduler:
    """Everything of one process. `home`: where the forwarders look for a topic without hints;
    `stored_limits`: what each tenant may store; `usage` is told how much it does.

    All that it writes to Postgres is under the fence of its lock: no part of it has another
    database than the fenced one.
    """

    def __init__(
        self,
        *,
        store: StoreClient,
        database: Database,
        feed: ChangeFeed,
        settings: SchedulerSettings,
        home: Home,
        stored_limits: TenantLimit,
        usage: Usage = NO_LIMITS,
    ) -> None:
        self._store = store
        self._leader = Leader(LockRepository(database), self._work)
        self._database = FencedDatabase(database, self._leader.held)
        self._settings = settings
        self._home = home
        self._stored_limits = stored_limits
        self._usage = usage
        self._retention = RetentionRepository(self._database)
        self._topics = TopicMap(self._retention)
        self._version = feed.version
        feed.add_listener(self._topics.on_feed)
        self._cron = Cron(
            ScheduleRepository(self._database),
            TopicRepository(self._database),
            Outbox(store, settings.release_timeout_s),
        )
        feed.add_listener(self._cron.on_feed)
        self._task: asyncio.Task[None] | None = None

    @property
    def leading(self) -> bool:
        return self._leader.leading

    async def start(self) -> None:
        """Never fails: with Postgres or the store down it waits."""
        self._task = asyncio.create_task(self._leader.run())

    async def close(self) -> None:
        """Gives the lock back, so that another takes it at once."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _work(self, term: Term, lock: Callable[[], Lock]) -> None:
        term.spawn(self._balancer(lock).run())
        term.spawn(JobKeeper(self._database, self._settings.jobs_every_s).run())
        await self._topics.read()
        due = DueLoop(
            self._store,
            DueRepository(self._database),
            ForwardedRepository(self._database),
            self._settings,
            term,
            lock,
        )

        try:
            await due.begin(self._topics.queues)
            sizes = Sizes(self._store, self._settings.release_timeout_s)
            meter = StoredMeter(self._topics, sizes, self._usage, self._settings.measure_every_s)
            term.spawn(self._keeper(sizes).run())
            term.spawn(meter.run())
            term.spawn(Backlogs(self._topics, self._retention, sizes).run())
            term.spawn(BackupAge(self._store, self._settings.release_timeout_s).run())
            term.spawn(self._exports(sizes).run())
            term.spawn(self._redriving(lock).run(term))
            term.spawn(self._cron.run(lock))
            for pruning in self._prunings():
                term.spawn(pruning.run())
            term.spawn(self._publications().run())
            await self._topics.follow(due.owned)
        finally:
            due.close()

    def _balancer(self, lock: Callable[[], Lock]) -> Balancer:
        fleet, hints = FleetRepository(self._database), HintRepository(self._database)
        return Balancer(fleet, hints, self._home, lock)

    def _redriving(self, lock: Callable[[], Lock]) -> Redriving:
        return Redriving(
            self._store,
            Outbox(self._store, self._settings.release_timeout_s),
            RedriveRepository(self._database),
            DeadLetterRepository(self._database),
            TopicRepository(self._database),
            lock,
            version=self._version,
        )

    def _prunings(self) -> tuple[Pruning, ...]:
        history = AckHistoryRepository(self._database)
        audit, usage = AuditLog(self._database), UsageHours(self._database)
        exports = ExportSweepRepository(self._database)
        audit_s = self._settings.audit_retention_days * DAY_S
        usage_s = self._settings.usage_retention_days * DAY_S
        return (
            Pruning("ack history", history.trim, DEFAULT_AGE_S, every_s=60.0),
            Pruning("audit", audit.prune, audit_s, every_s=300.0),
            Pruning("usage", usage.prune, usage_s, every_s=300.0),
            Pruning("export runs", exports.prune, EXPORT_RUNS_KEPT_S, every_s=300.0),
        )

    def _exports(self, sizes: Sizes) -> ExportKeeper:
        every_s = self._settings.exports_every_s
        return ExportKeeper(self._database, self._topics, sizes, every_s=every_s)

    def _publications(self) -> PublicationSweep:
        timeout_s = self._settings.release_timeout_s
        forwarding = Forwarding(
            self._store, ForwardedRepository(self._database), timeout_s=timeout_s
        )
        return PublicationSweep(
            self._store, PublicationRepository(self._database), forwarding, timeout_s=timeout_s
        )

    def _keeper(self, sizes: Sizes) -> Keeper:
        settings = self._settings
        truncator = Truncator(
            self._store,
            self._retention,
            PlacementRepository(self._database),
            ForwardedRepository(self._database),
            sizes,
            age_every_s=settings.age_every_s,
            timeout_s=settings.release_timeout_s,
        )
        return Keeper(
            self._topics,
            self._retention,
            truncator,
            sizes,
            every_s=settings.trim_every_s,
            stored_limits=self._stored_limits,
            exports=ExportPinRepository(self._database),
        )
