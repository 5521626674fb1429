"""The tables. Every key of a tenant's own starts with `tenant_id`, from the first migration on."""

from __future__ import annotations

from metadata.models.base import Base
from metadata.models.changes import ChangeCounterRow, ChangeRow
from metadata.models.due import DueProgressRow, DueRow, ForwardedRow
from metadata.models.history import PinRow, SnapshotRow, TopicUsageRow
from metadata.models.ownership import AssignmentRow, ForwarderRow, LockRow
from metadata.models.subscriptions import CursorRow, DeliveryRow, SubscriptionRow
from metadata.models.tenants import TenantRow
from metadata.models.topics import PartitionRow, PlacementRow, TopicRow

__all__ = [
    "AssignmentRow",
    "Base",
    "ChangeCounterRow",
    "ChangeRow",
    "CursorRow",
    "DeliveryRow",
    "DueProgressRow",
    "DueRow",
    "ForwardedRow",
    "ForwarderRow",
    "LockRow",
    "PartitionRow",
    "PinRow",
    "PlacementRow",
    "SnapshotRow",
    "SubscriptionRow",
    "TenantRow",
    "TopicRow",
    "TopicUsageRow",
]
