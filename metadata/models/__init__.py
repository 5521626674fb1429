"""The tables. Every key of a tenant's own starts with `tenant_id`, from the first migration on."""

from __future__ import annotations

from metadata.models.access import ApiKeyRow, ClientRow, IssuerRow, PolicyRow
from metadata.models.base import Base
from metadata.models.changes import ChangeCounterRow, ChangeRow, DatabaseSchemaRow
from metadata.models.contracts import (
    AckPublicationRow,
    ScheduleRow,
    SchemaRow,
    SchemaVersionRow,
)
from metadata.models.dead_letters import DeadLetterRow, RedriveRow
from metadata.models.due import DueProgressRow, DueRow, ForwardedRow
from metadata.models.exports import (
    ExportPositionRow,
    ExportRow,
    ExportRunRow,
    ExportTableRow,
)
from metadata.models.flow import PushAttemptRow, PushEndpointRow, SubscriptionFlowRow
from metadata.models.history import (
    AckHistoryRow,
    PinRow,
    SnapshotCursorRow,
    SnapshotRow,
    TopicUsageRow,
)
from metadata.models.identity import RevokedTokenRow, SigningKeyRow
from metadata.models.jobs import JobPoolRow, JobRow, JobTaskRow
from metadata.models.ownership import (
    AssignmentHintRow,
    AssignmentRow,
    EraRow,
    ForwarderRow,
    LockFenceRow,
    LockRow,
    LockWaiterRow,
)
from metadata.models.subscriptions import (
    CursorRow,
    DeliveryLeaseRow,
    DeliveryRow,
    SkipRuleRow,
    SubscriptionRow,
)
from metadata.models.tenants import (
    AuditRow,
    QuotaDemandRow,
    QuotaRow,
    TenantRow,
    UsageHourRow,
    UsageReporterRow,
)
from metadata.models.topics import PartitionRow, PlacementRow, TopicRow

__all__ = [
    "AckHistoryRow",
    "AckPublicationRow",
    "ApiKeyRow",
    "AssignmentHintRow",
    "AssignmentRow",
    "AuditRow",
    "Base",
    "ChangeCounterRow",
    "ChangeRow",
    "ClientRow",
    "CursorRow",
    "DatabaseSchemaRow",
    "DeadLetterRow",
    "DeliveryLeaseRow",
    "DeliveryRow",
    "DueProgressRow",
    "DueRow",
    "EraRow",
    "ExportPositionRow",
    "ExportRow",
    "ExportRunRow",
    "ExportTableRow",
    "ForwardedRow",
    "ForwarderRow",
    "IssuerRow",
    "JobPoolRow",
    "JobRow",
    "JobTaskRow",
    "LockFenceRow",
    "LockRow",
    "LockWaiterRow",
    "PartitionRow",
    "PinRow",
    "PlacementRow",
    "PolicyRow",
    "PushAttemptRow",
    "PushEndpointRow",
    "QuotaDemandRow",
    "QuotaRow",
    "RedriveRow",
    "RevokedTokenRow",
    "ScheduleRow",
    "SchemaRow",
    "SchemaVersionRow",
    "SigningKeyRow",
    "SkipRuleRow",
    "SnapshotCursorRow",
    "SnapshotRow",
    "SubscriptionFlowRow",
    "SubscriptionRow",
    "TenantRow",
    "TopicRow",
    "TopicUsageRow",
    "UsageHourRow",
    "UsageReporterRow",
]
