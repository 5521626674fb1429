"""Resources of the SDK: locks, schedules, schemas, pools and exports."""

from __future__ import annotations

from openapi.sdk.methods import Area, Given, Method

LIST = "Iterate over all of them, page by page."
GET = "Raise NotFound where there is none of this name."
RUN = "Raise NotFound where there is none of this number."
UPDATE = "Change the fields that are given; the others stay."

LOCKS = Area(
    "locks",
    "Locks",
    "Locks: one client holds each at a time.",
    (
        Method(
            "acquire",
            "acquireLock",
            "Wait up to `wait_seconds` (at most 60) for the lock; clients get it in the order in "
            "which they came. Raise Conflict, `lock-held`, when the time is over. A `request_id` "
            "that you choose anew for each holding makes it safe to send the request again.",
            given=(Given("wait_seconds", kind="float", default="0"),),
            safe="request_id is not None",
            waits="wait_seconds",
        ),
        Method(
            "renew",
            "renewLock",
            "Hold the lock for longer. Raise Conflict, `lock-lost`, once the lease is over: stop.",
            safe="True",
        ),
        Method("release", "releaseLock", "Give the lock to the next client at once.", safe="True"),
        Method(
            "verify",
            "verifyLock",
            "Ask whether the token was that of the holder a moment ago. It is better to let the "
            "resource that the lock protects compare tokens.",
            safe="True",
        ),
        Method("get", "getLock", f"Return the lock and its holder. {GET}"),
        Method("list", "listLocks", LIST),
        Method("delete", "deleteLock", "Take the lock away from its holder."),
    ),
    calls="tenancy",
    base=True,
)

SCHEDULES = Area(
    "schedules",
    "Schedules",
    "Schedules: they publish messages at times given by a cron expression.",
    (
        Method(
            "create",
            "createSchedule",
            "Create a schedule. `cron` is minute, hour, day of month, month and day of week, or "
            "`@hourly`, `@daily`, …. Raise Conflict where the name is taken.",
            settings="ScheduleSettings",
            body="schedule_body",
        ),
        Method("get", "getSchedule", f"Return the schedule with its next runs. {GET}"),
        Method("list", "listSchedules", LIST),
        Method(
            "put",
            "putSchedule",
            "Create or replace the schedule; fields that are not given get their defaults.",
            settings="ScheduleSettings",
            body="schedule_body",
        ),
        Method(
            "update", "changeSchedule", UPDATE, settings="ScheduleChanges", body="schedule_body"
        ),
        Method("delete", "deleteSchedule", f"Delete the schedule. {GET}"),
        Method(
            "next_runs",
            "nextRuns",
            "Return the times of its next runs, up to 100.",
            given=(Given("count", kind="int", default="10"),),
        ),
        Method(
            "pause",
            "pauseSchedule",
            "Publish nothing until the schedule is resumed.",
            safe="True",
        ),
        Method(
            "resume",
            "resumeSchedule",
            "Go on with the next run; those of the pause are not made up for.",
            safe="True",
        ),
        Method(
            "run",
            "runSchedule",
            "Publish its message now, besides its runs, also while it is paused. Raise "
            "UnknownOutcome where the message may have been published: each call publishes once "
            "more.",
        ),
    ),
    calls="messaging",
)

SCHEMAS = Area(
    "schemas",
    "Schemas",
    "Schemas that bodies of a topic must fit.",
    (
        Method(
            "create",
            "createSchema",
            "Create a schema. `definition` is JSON, or its text. A new version must be compatible: "
            "`backward`, unless `compatibility` is given. Raise Conflict where the name is taken, "
            "and InvalidRequest where the definition is none.",
            given=(Given("definition", kind="Any"),),
        ),
        Method("get", "getSchema", f"Return the schema with its latest version. {GET}"),
        Method("list", "listSchemas", LIST),
        Method(
            "update",
            "changeSchema",
            "Change the rule that new versions have to keep.",
            keyword=("compatibility",),
        ),
        Method(
            "delete",
            "deleteSchema",
            "Delete the schema with all its versions. Raise Conflict while a topic uses it.",
        ),
        Method("versions", "listSchemaVersions", "Return its versions, without definitions."),
        Method(
            "add_version",
            "addSchemaVersion",
            "Add a version and return its number; a definition that is the latest one already "
            "keeps its number. Raise InvalidRequest, whose `errors` name what would break.",
            given=(Given("definition", kind="Any"),),
            safe="True",
        ),
        Method("version", "getSchemaVersion", f"Return one version. {GET}"),
        Method(
            "check",
            "checkSchema",
            "Ask whether a definition could be the next version.",
            given=(Given("definition", kind="Any"),),
            safe="True",
        ),
        Method(
            "validate",
            "validateBody",
            "Ask whether a body, JSON or bytes, fits the latest version, or the one that `number` "
            "names.",
            required=("data",),
            left_out=("data_base64",),
            body="body_to_validate",
            safe="True",
        ),
    ),
    calls="tenancy",
)

JOBS = Area(
    "jobs",
    "Jobs",
    "Jobs: start and follow them, and run their tasks.",
    (
        Method(
            "create",
            "createJob",
            "Create the job. Raise Conflict where the name is taken.",
            spec="JobSpec",
            untagged=True,
        ),
        Method(
            "put",
            "putJob",
            "Create the job, or find the one with the same content. Raise Conflict where a job of "
            "this name has another content.",
            spec="JobSpec",
            left_out=("If-Match",),
            untagged=True,
        ),
        Method(
            "",
            "getJob",
            given=(Given("wait_seconds", kind="float", default="0"),),
            waits="wait_seconds",
            untagged=True,
        ),
        Method("list", "listJobs", LIST),
        Method(
            "add_tasks",
            "addTasks",
            "Add a task for each input, 1,000 at most, from the number `first_index` on. An input "
            "is JSON.",
            given=(Given("inputs", kind="Sequence[msgspec.Raw]"),),
            result="None",
            safe="True",
        ),
        Method(
            "seal",
            "sealJob",
            "Say that the job has all its tasks, whose number is `tasks`.",
            safe="True",
            untagged=True,
        ),
        Method(
            "cancel",
            "cancelJob",
            "Begin no more of its tasks, and tell those that run. A finished job stays as it is.",
            safe="True",
            untagged=True,
        ),
        Method(
            "retry",
            "retryJob",
            "Run the tasks of a failed or cancelled job again that did not succeed.",
            safe="True",
            untagged=True,
        ),
        Method(
            "delete",
            "deleteJob",
            "Delete the job; with `force` also one that is not finished.",
            left_out=("If-Match",),
        ),
        Method(
            "tasks",
            "listTasks",
            "Iterate over the tasks of a job, in the order of their inputs, and then over its "
            "reduce task, if there is one.",
            page="tasks_page",
        ),
        Method("", "listOutputs", given=(Given("first_index", kind="int", default="0"),)),
    ),
    named={"job": "name"},
    models="packetboat.models.jobs",
    base=True,
)

POOLS = Area(
    "pools",
    "Pools",
    "Pools: the most tasks of a kind of work that run at once, over all workers.",
    (
        Method(
            "put",
            "putPool",
            "Create or change the pool; None is no limit.",
            keyword=("max_running",),
            required=("max_running",),
            left_out=("If-Match",),
            untagged=True,
        ),
        Method(
            "get",
            "getPool",
            "Return the pool, with the numbers of its tasks that run and wait.",
            untagged=True,
        ),
        Method(
            "list",
            "listPools",
            "Iterate over pools that were made or have tasks, page by page.",
        ),
        Method(
            "delete",
            "deletePool",
            "Delete the limit of the pool; its tasks stay.",
            left_out=("If-Match",),
        ),
    ),
    named={"pool": "name"},
    models="packetboat.models.jobs",
    calls="jobs",
)

EXPORTS = Area(
    "exports",
    "Exports",
    "Exports: topics that are written into tables of a lake, run by run.",
    (
        Method(
            "create",
            "createExport",
            "Create an export. `topic` may be a pattern, such as `orders-*`. Raise Conflict where "
            "the name is taken, or the table is another export's.",
            settings="ExportSettings",
            body="export_body",
        ),
        Method(
            "get",
            "getExport",
            "Return the export with its state: rows, lag, positions, the last run, the place of "
            f"the table. {GET}",
        ),
        Method(
            "list",
            "listExports",
            "Iterate over all of them, or over those that a topic is part of, page by page.",
        ),
        Method(
            "put",
            "putExport",
            "Create or replace the export; fields that are not given get their defaults. Raise "
            "Conflict for a change of what an export is made with for good.",
            settings="ExportSettings",
            body="export_body",
        ),
        Method("update", "patchExport", UPDATE, settings="ExportChanges", body="export_body"),
        Method(
            "delete",
            "deleteExport",
            f"Delete the export and its history of runs; the table stays. {GET}",
        ),
        Method(
            "pause",
            "pauseExport",
            "Begin no run until the export is resumed. Messages that it has not exported stay "
            "stored, within the limits of the topic.",
            safe="True",
        ),
        Method(
            "resume",
            "resumeExport",
            "Begin runs again; the next one takes all messages of the pause.",
            safe="True",
        ),
        Method(
            "",
            "runExport",
            given=(Given("kind", kind="ExportKind", default='"export"'),),
            safe='kind == "export"',
        ),
        Method(
            "runs",
            "listExportRuns",
            "Iterate over the runs of one export, the newest first, page by page.",
            page="runs_page",
        ),
        Method("get_run", "getExportRun", "Return one run as it stands. " + RUN),
        Method(
            "cancel_run",
            "cancelExportRun",
            "Cancel a run, which commits nothing more. A finished run stays as it is.",
            safe="True",
        ),
        Method("log", "getExportRunLog", "Return the log of the run, line by line."),
    ),
    named={"run": "number"},
    models="packetboat.models.exports",
    base=True,
)

EXPORT_RUNS = Area(
    "export_runs",
    "ExportRuns",
    "Runs of exports, for the runners that carry them out with the permission `run_exports`.",
    (
        Method(
            "claim",
            "claimExportRun",
            "Lease a run whose table is in one of the lakes. Return None where none comes within "
            "`wait_seconds`. A run whose answer is lost is leased again after `lease_seconds`.",
            given=(
                Given("lease_seconds", kind="float", default="60"),
                Given("wait_seconds", kind="float", default="0"),
            ),
            waits="wait_seconds",
        ),
        Method(
            "plan",
            "planExportRun",
            "Return the messages that the run has to write, from the positions of the table. The "
            "same positions give the same ranges again.",
            safe="True",
        ),
        Method(
            "renew",
            "renewExportRun",
            "Begin the lease and the token anew. `log` is the text since the last renewal. Raise "
            "Conflict, `lease-lost`, once the lease is over: commit nothing more.",
            given=(Given("lease_seconds", kind="float", default="60"),),
            safe="log is None",
        ),
        Method(
            "finish",
            "finishExportRun",
            "End the run. `positions` are those of the table now, None where they are not known. "
            "With `retry` another attempt may follow.",
            safe="True",
        ),
    ),
    models="packetboat.models.export_runs",
    homes={
        "ExportFailure": "packetboat.models.exports",
        "ExportProgress": "packetboat.models.exports",
        "ExportResult": "packetboat.models.exports",
    },
)

AREAS = (LOCKS, SCHEDULES, SCHEMAS, JOBS, POOLS, EXPORTS, EXPORT_RUNS)
