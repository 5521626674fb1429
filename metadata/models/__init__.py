"""The tables. Every key of a tenant's own starts with `tenant_id`, from the first migration on."""

from __future__ import annotations

from metadata.models.base import Base
from metadata.models.changes import ChangeCounterRow, ChangeRow
from metadata.models.contracts import (
    AckPublicationRow,
    ScheduleRow,
    SchemaRow,
    SchemaVersionRow,
)
from metadata.models.dead_letters import DeadLetterRow, RedriveRow
from metadata.models.due import DueProgressRow, DueRow, ForwardedRow
from metadata.models.history import (
    AckHistoryRow,
    PinRow,
    SnapshotCursorRow,
    SnapshotRow,
    TopicUsageRow,
)
from metadata.models.ownership import AssignmentRow, ForwarderRow, LockRow
from metadata.models.subscriptions import (
    CursorRow,
    DeliveryLeaseRow,
    DeliveryRow,
    SkipRuleRow,
    SubscriptionRow,
)
from metadata.models.tenants import TenantRow
from metadata.models.topics import PartitionRow, PlacementRow, TopicRow

__all__ = [
    "AckHistoryRow",
    "AckPublicationRow",
    "AssignmentRow",
    "Base",
    "ChangeCounterRow",
    "ChangeRow",
    "CursorRow",
    "DeadLetterRow",
    "DeliveryLeaseRow",
    "DeliveryRow",
    "DueProgressRow",
    "DueRow",
    "ForwardedRow",
    "ForwarderRow",
    "LockRow",
    "PartitionRow",
    "PinRow",
    "PlacementRow",
    "RedriveRow",
    "ScheduleRow",
    "SchemaRow",
    "SchemaVersionRow",
    "SkipRuleRow",
    "SnapshotCursorRow",
    "SnapshotRow",
    "SubscriptionRow",
    "TenantRow",
    "TopicRow",
    "TopicUsageRow",
]
