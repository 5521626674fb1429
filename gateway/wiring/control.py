"""The control plane's parts."""

from __future__ import annotations

from edge.lifetime import own
from gateway.forwarders import ForwarderRoutes
from gateway.locks.locks import LockRoutes
from gateway.locks.locks import sweep as sweep_locks
from gateway.locks.wait_list import LockWaitList
from gateway.recovery.orphans import survey
from gateway.schedules.schedules import ScheduleRoutes
from gateway.schemas.schemas import SchemaRoutes
from gateway.subscriptions.signing_secrets import SigningSecretRoutes
from gateway.subscriptions.skip_rules import SkipRuleRoutes
from gateway.subscriptions.snapshots import SnapshotRoutes
from gateway.subscriptions.snapshots import sweep as sweep_snapshots
from gateway.subscriptions.subscriptions import SubscriptionRoutes
from gateway.topics.delayed import DelayedRoutes
from gateway.topics.group_choice import GroupChoice
from gateway.topics.holds import Holds
from gateway.topics.lifecycle import TopicLifecycle
from gateway.topics.partitions import PartitionRoutes
from gateway.topics.placement import Mover
from gateway.topics.topics import TopicRoutes
from gateway.whoami import WhoAmI
from gateway.wiring.exports import open_exports
from gateway.wiring.jobs import open_jobs
from gateway.wiring.oauth import open_oauth
from gateway.wiring.parts import Shared
from gateway.wiring.tenancy import open_tenancy
from metadata.delivery.cursors import CursorRepository
from metadata.delivery.fleet import FleetRepository
from metadata.delivery.hints import HintRepository
from metadata.locks.catalog import LockCatalog
from metadata.locks.locks import LockRepository
from metadata.locks.waiters import LockWaiterRepository
from metadata.recovery import RecoveryRepository
from metadata.subscriptions.dead_letters import DeadLetterRepository
from metadata.subscriptions.skip_rules import SkipRuleRepository
from metadata.topics.holds import HoldRepository
from metadata.topics.placements import PlacementRepository
from metadata.topics.schedules import ScheduleRepository
from outbox import Outbox
from schemas.checker import Checker
from schemas.message_check import SchemaCheck


def open_control(shared: Shared) -> None:
    """Open topics, subscriptions and their attachments, as people and programs change them."""
    open_oauth(shared, shared.identity.tokens, shared.identity.access_tokens)
    shared.parts.routes += WhoAmI(
        shared.identity.tokens.directory, shared.identity.policies
    ).routes()
    parts, stack = shared.parts, shared.stack
    assert shared.sealer is not None, "settings of this role have seal keys"
    choice, placements = GroupChoice(shared.store), PlacementRepository(shared.database)
    lifecycle = TopicLifecycle(
        shared.topics,
        shared.catalog,
        placements,
        shared.store,
        choice,
        repair_after_s=shared.settings.topic_repair_after_s,
    )
    own(stack, lifecycle.repair)
    open_tenancy(shared, lifecycle)
    mover = Mover(placements, shared.store, choice, shared.feed.version)
    own(stack, mover.repair)
    recovery = RecoveryRepository(shared.database)
    own(
        stack,
        lambda: survey(shared.store, recovery),
        "search for unknown topics",
    )
    holds = Holds(
        shared.store,
        CursorRepository(shared.database),
        shared.subscriptions,
        HoldRepository(shared.database),
        DeadLetterRepository(shared.database),
    )
    parts.routes += TopicRoutes(shared.topics, lifecycle, holds).routes()
    parts.routes += DelayedRoutes(shared.catalog, shared.store).routes()
    parts.routes += PartitionRoutes(shared.topics, placements, shared.store, mover).routes()
    parts.routes += SchemaRoutes(
        shared.schemas, shared.catalog, shared.store, Checker(shared.process_pool)
    ).routes()
    parts.routes += ScheduleRoutes(
        ScheduleRepository(shared.database, shared.metered.defaults),
        shared.catalog,
        Outbox(shared.store),
        SchemaCheck(shared.schema_catalog, shared.process_pool),
    ).routes()
    parts.routes += SkipRuleRoutes(
        SkipRuleRepository(shared.database), shared.subscriptions, CursorRepository(shared.database)
    ).routes()
    parts.routes += SubscriptionRoutes(
        shared.catalog,
        shared.subscriptions,
        holds,
        shared.store,
        shared.snapshots,
        shared.sealer,
        shared.egress,
    ).routes()
    parts.routes += SigningSecretRoutes(shared.subscriptions, shared.sealer).routes()
    parts.routes += SnapshotRoutes(shared.snapshots).routes()
    parts.routes += ForwarderRoutes(
        FleetRepository(shared.database), HintRepository(shared.database)
    ).routes()
    own(stack, lambda: sweep_snapshots(shared.snapshots), "sweep of snapshots")
    _open_locks(shared)
    open_jobs(shared)
    open_exports(shared)


def _open_locks(shared: Shared) -> None:
    parts, stack = shared.parts, shared.stack
    line, catalog = LockWaitList(shared.database), LockCatalog(shared.database)
    stack.push_async_callback(line.waits.close)
    own(stack, line.run)
    waiters = LockWaiterRepository(shared.database)
    own(stack, lambda: sweep_locks(catalog, waiters), "sweep of locks")
    parts.drains.append(line.waits.drain)
    parts.routes += LockRoutes(LockRepository(shared.database), catalog, line).routes()
