"""The models of schedules, of exports and their runs, and of the calls of runners."""

from __future__ import annotations

from openapi import export_runners, export_runs, exports, schedules
from openapi.sdk.messaging_models import CONTENT, SENT
from openapi.sdk.models import Keywords, Model, Module

MAINTENANCE = exports.ExportMaintenance.__struct_fields__
NOTHING_YET = dict.fromkeys(("rows", "rejected", "filtered", "bytes", "expired"), 0)
FOR_GOOD = tuple(each for each in exports.ExportPut.FIXED if each not in ("name", "topic"))

CLOCK = ("topic", "cron", "message")
PARTS = {
    "schedules": Module(
        "Messages that are published by the clock.",
        (
            Model(
                schedules.ScheduleMessage,
                options="kw_only=True",
                without=("data_base64",),
                always=("data",),
                types={"data": "Data", "attributes": "Mapping[str, str] | None"},
                defaults={"attributes": None},
                texts=SENT,
                doc="The message of each run. Runs add the attributes `packetboat-schedule` and "
                "`packetboat-scheduled-time`.",
            ),
            Keywords(
                "ScheduleChanges",
                schedules.SchedulePut,
                "Fields of a schedule that may be changed; the others stay.",
                without=schedules.SchedulePut.FIXED,
            ),
            Keywords(
                "ScheduleSettings",
                schedules.SchedulePut,
                "Fields of a new schedule beside its topic, cron and message; the others get the "
                "server's defaults.",
                without=(*schedules.SchedulePut.FIXED, *CLOCK),
            ),
            Model(
                schedules.ScheduledMessage,
                base=CONTENT,
                options="kw_only=True",
                doc="The message of each run.",
            ),
            Model(
                schedules.Schedule,
                etag=True,
                always=("name",),
                defaults={"runs": 0, "missed": 0},
                doc="A message that is published by the clock.",
            ),
            Model(schedules.ScheduleRun),
        ),
        {"MissedRuns": schedules.MissedRuns},
    ),
    "exports": Module(
        "Exports: topics that are written into tables of a lake, run by run.",
        (
            Model(
                exports.ExportMaintenance,
                options="kw_only=True, omit_defaults=True",
                types=dict.fromkeys(MAINTENANCE, "int | None"),
                defaults=dict.fromkeys(MAINTENANCE),
            ),
            Keywords(
                "ExportChanges",
                exports.ExportPut,
                "Fields of an export that may be changed; the others stay.",
                without=exports.ExportPut.FIXED,
            ),
            Keywords(
                "ExportSettings",
                exports.ExportPut,
                "Fields of a new export; the others get the server's defaults.",
                only=FOR_GOOD,
                base="ExportChanges",
                types={"start": "str | datetime"},
            ),
            Model(exports.LakeTableState),
            Model(exports.ExportPosition),
            Model(export_runs.ExportRange),
            Model(export_runs.ExportRunProgress, doc="The progress of a run."),
            Model(export_runs.RunFailure, doc="The reason that a run failed."),
            Model(export_runs.CountDifference),
            Model(
                export_runs.ExportRunResult,
                types={
                    "new_columns": "tuple[str, ...]",
                    "differences": "tuple[HourDifference, ...]",
                },
                defaults={"new_columns": (), "differences": ()},
            ),
            Model(
                export_runs.ExportRun,
                methods="Running",
                types={"kind": "ExportKind", "state": "ExportRunState", "trigger": "ExportTrigger"},
                defaults={"trigger": "manual", "attempt": 0, "max_attempts": 0},
            ),
            Model(
                exports.Export,
                etag=True,
                always=("name", "table"),
                types={
                    "format": "ExportFormat",
                    "body": "ExportBody",
                    "partition_by": "ExportPartitionBy",
                    "state": "ExportState",
                },
                defaults_of=exports.ExportPut,
                defaults=NOTHING_YET
                | {
                    "maintenance": exports.ExportMaintenance,
                    "maintain_cron": None,
                    "state": "idle",
                    "lag_messages": None,
                },
            ),
        ),
        {
            "ExportBody": exports.BodyForm,
            "ExportFormat": exports.Format,
            "ExportPartitionBy": exports.PartitionBy,
            "ExportMissedRuns": exports.MissedRuns,
            "ExportKind": export_runs.Kind,
            "ExportState": exports.State,
            "ExportRunState": export_runs.State,
            "ExportTrigger": export_runs.Trigger,
        },
    ),
    "export_runs": Module(
        "Runs of exports as their runners see them.",
        (
            Model(export_runs.ExportLaneKey, options="order=True"),
            Model(export_runners.ExportLanePosition, options="order=True"),
            Model(export_runners.ExportLaneRange, options="order=True"),
            Model(export_runners.ExportSpecMaintenance),
            Model(
                export_runners.ExportSpec,
                always=("name", "table", "columns", "filter", "max_bytes_per_second"),
                types={
                    "format": "ExportFormat",
                    "body": "ExportBody",
                    "partition_by": "ExportPartitionBy",
                },
            ),
            Model(export_runners.ExportRunLease, types={"kind": "ExportKind"}),
            Model(export_runners.ExportRunRenewed),
        ),
        {"FinishedState": export_runners.FinishedState},
    ),
}
