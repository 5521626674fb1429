"""Jobs of map and reduce tasks, and pools of workers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from openapi.common import (
    CONFLICT,
    ETAG,
    IF_MATCH,
    RETRY_AFTER,
    Count,
    Labels,
    Name,
    Positive,
    Problem,
    Text,
    created,
)
from openapi.contract import (
    Answer,
    Body,
    Header,
    Operation,
    Parameter,
    Refusal,
    no_content,
    ok,
    table,
)

MAX_JOB_TASKS = 100_000
MAX_TASKS_AT_ONCE = 1_000
MAX_LEASES_AT_ONCE = 100
MAX_INPUT_BYTES = 64 * 1024
MAX_OUTPUT_BYTES = 256 * 1024
MAX_ERROR_CHARS = 4096
Backoff = Annotated[float, Meta(ge=0, le=86_400)]
OnFailure = Literal["fail", "continue"]
Number = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Phase = Literal["map", "reduce"]
Kind = Annotated[
    str, Meta(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}\Z")
]
JobState = Literal["open", "running", "reducing", "succeeded", "failed", "cancelled"]
TaskState = Literal[
    "waiting", "running", "delayed", "waiting_for_job", "succeeded", "failed", "cancelled"
]
Priority = Annotated[int, Meta(ge=0, le=9)]
LeaseSeconds = Annotated[float, Meta(ge=1, le=3600)]
LeaseId = Annotated[str, Meta(min_length=1, max_length=64)]
LeaseIds = Annotated[list[LeaseId], Meta(min_length=1, max_length=MAX_LEASES_AT_ONCE)]


class TaskRetry(Body):
    min_backoff_seconds: Backoff = 1.0
    max_backoff_seconds: Backoff = 600.0


class JobParent(Body):
    job: Name
    index: Number
    phase: Phase = "map"


class TaskCounts(Answer):
    """Numbers of map tasks. A task that waits for a child counts as running, and a task that waits
    for its back-off as delayed."""

    total: Count
    waiting: Count
    running: Count
    delayed: Count
    succeeded: Count
    failed: Count
    cancelled: Count


class Job(Answer):
    name: str
    map: str
    reduce: str | None
    pool: str
    reduce_pool: str | None
    priority: int
    max_attempts: int
    retry: TaskRetry
    on_failure: OnFailure
    max_failed: int | None
    parent: JobParent | None
    keep_seconds: int
    labels: dict[str, str]
    state: JobState
    """`open` until it is sealed."""
    tasks: TaskCounts
    result: Any
    """The output of the reduce task, any JSON; null in a listing."""
    error: str | None
    """The reason that it failed, or that it was cancelled."""
    created_at: datetime
    finished_at: datetime | None


class JobPage(Answer):
    jobs: list[Job]
    next_page_token: str | None


class JobContent(Body, kw_only=True):
    """The content of a job, which never changes."""

    map: Kind
    """The kind of its map tasks: a name that workers know."""
    reduce: Kind | None = None
    """The kind of its reduce task; without one its result is null."""
    pool: Name = "default"
    """The pool whose workers run its tasks."""
    reduce_pool: Name | None = None
    """The pool of the reduce task, if it is another."""
    priority: Priority = 0
    """A number from 0 to 9; jobs of priority 9 are the most urgent."""
    max_attempts: Annotated[int, Meta(ge=1, le=100)] = 5
    """Attempts at each task; a lease that ends is one."""
    retry: TaskRetry | None = None
    """Back-off between the attempts of a task, doubled each time."""
    on_failure: OnFailure = "fail"
    """The rule for a task without attempts left: fail the job at once, or continue without its
    output."""
    max_failed: Number | None = None
    """With `continue`: one more failed task fails the job."""
    parent: JobParent | None = None
    """The task that may wait for this job; it is cancelled with the job of that."""
    keep_seconds: Annotated[int, Meta(ge=0, le=31_536_000)] = 86_400
    """Seconds that the job is kept after its end."""
    labels: Labels = {}


class JobCreate(JobContent):
    """A request to create a job."""

    name: Name


class JobPut(JobContent):
    """A job as a whole; its name may be left out."""

    name: Name | UnsetType = UNSET


class JobTask(Answer):
    index: int
    """The number of a map task, from 0; the reduce task has 0."""
    phase: Phase
    state: TaskState
    attempt: int
    """The first is 1; 0 before it."""
    error: str | None
    """The error of the last attempt that failed."""
    worker: str | None
    wait_for: str | None
    """The child whose result is to be its output."""
    lease_until: datetime | None
    started_at: datetime | None
    finished_at: datetime | None


class TaskPage(Answer):
    tasks: list[JobTask]
    next_page_token: str | None


class TasksAdd(Body):
    first_index: Annotated[int, Meta(ge=0, le=MAX_JOB_TASKS - 1)]
    """The number of the first input's task; the others follow."""
    inputs: Annotated[list[Any], Meta(min_length=1, max_length=MAX_TASKS_AT_ONCE)]
    """Any JSON, each at most 64 KiB."""


class TasksAdded(Answer):
    total: int
    """The number of map tasks that the job has now."""


class TaskOutput(Answer):
    index: int
    output: Any = UNSET
    """Any JSON, from a task that succeeded."""
    error: str | UnsetType = UNSET
    """The error of a task that failed."""


class OutputPage(Answer):
    outputs: list[TaskOutput]
    next_page_token: str | None


class JobSeal(Body):
    tasks: Annotated[int, Meta(ge=0, le=MAX_JOB_TASKS)]
    """The number of its map tasks; their indices are 0 to one less."""


class Pool(Answer):
    name: str
    max_running: int | None
    running: Count
    waiting: Count


class PoolPage(Answer):
    pools: list[Pool]
    next_page_token: str | None


class PoolPut(Body):
    max_running: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    """Most tasks of the pool that are leased at once; null is no limit, and 0 leases none."""


class TasksClaim(Body):
    kinds: Annotated[list[Kind], Meta(min_length=1, max_length=100)]
    """The kinds of tasks that this worker can run."""
    max_tasks: Annotated[int, Meta(ge=1, le=MAX_LEASES_AT_ONCE)] = 1
    wait_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.0
    """Seconds to wait for the first task."""
    lease_seconds: LeaseSeconds = 30.0
    """Seconds that the leases hold unless they are extended."""
    worker: Text | None = None
    """A name of the worker that others are shown."""


class ClaimedTask(Answer):
    lease_id: str
    """The id of this holding of the task."""
    job: str
    index: int
    """The number of a map task, from 0; a reduce task has 0."""
    phase: Phase
    kind: str
    input: Any
    """Any JSON; null for a reduce task."""
    attempt: Positive
    """The first is 1."""
    lease_until: datetime
    labels: dict[str, str]
    """The labels of the job."""
    inputs_total: int | None
    """The number of map tasks that succeeded, for a reduce task."""


class Claimed(Answer):
    tasks: list[ClaimedTask]


class TaskCompletion(Body):
    lease_id: LeaseId
    output: Any = UNSET
    """Any JSON, at most 256 KiB; null without it."""
    wait_for: Name | None = None
    """A job whose parent this task is, instead: its result will be the output of this task, or its
    failure the failure of this task."""


class TasksComplete(Body):
    tasks: Annotated[list[TaskCompletion], Meta(min_length=1, max_length=MAX_LEASES_AT_ONCE)]


class LeaseFailure(Answer):
    """The reason that one lease was not settled."""

    index: int
    """The place of the lease in the request, from 0."""
    lease_id: str
    status: int
    type: str
    detail: str


class TasksSettled(Answer):
    done: int
    results: list[LeaseFailure]


class TaskFailing(Body):
    lease_id: LeaseId
    error: Annotated[str, Meta(max_length=MAX_ERROR_CHARS)]
    """The reason, for people."""
    retry: bool = True
    """Whether the task gets a further attempt."""
    delay_seconds: Backoff | None = None
    """Seconds until the next attempt, instead of the job's back-off."""


class TasksFail(Body):
    tasks: Annotated[list[TaskFailing], Meta(min_length=1, max_length=MAX_LEASES_AT_ONCE)]


class TasksRelease(Body):
    lease_ids: LeaseIds


class TasksExtend(Body):
    lease_ids: LeaseIds
    lease_seconds: LeaseSeconds = 30.0
    """Seconds that the leases hold from now on."""


class TasksExtended(Answer):
    done: int
    results: list[LeaseFailure]
    cancelled: list[str]
    """Lease ids in `results` whose jobs were cancelled or have failed: end their tasks."""


TOO_MANY_STORED = Refusal(
    "TooManyStored",
    429,
    (
        "The tenant has as many of these as it may (`too-many-stored`; `limit` says how "
        "many), as many of its changes wait for their turn as may (`too-many-changes`), or "
        "it has used up its limit of requests per second (`rate-limited`)."
    ),
    Problem,
    (RETRY_AFTER,),
)

JOB_STATE = Parameter("", "state", "query", "Only those in this state.", JobState)
TASK_STATE = Parameter("", "state", "query", "Only those in this state.", TaskState)
FIRST_INDEX = Parameter("", "first_index", "query", "From this task on.", Number, default=0)
WAIT_FOR_END = Parameter(
    "",
    "wait_seconds",
    "query",
    "Seconds to wait for its end.",
    Annotated[float, Meta(ge=0, le=60)],
    default=0,
)

OPERATIONS = table(
    "jobs",
    Operation(
        id="listJobs",
        route="GET /jobs",
        needs="read job:?",
        summary="List jobs",
        parameters=(JOB_STATE,),
        paged=True,
        answers=(ok(JobPage, "One page, by name, without results."),),
    ),
    Operation(
        id="createJob",
        route="POST /jobs",
        needs="publish job:?",
        summary="Create a job",
        description=(
            "A job has map tasks, which run in any order and at once, then at most one reduce "
            "task, which gets their outputs. Add tasks, then seal it; tasks may run before. "
            "Needs `publish` on the job, on its pools and on its parent."
        ),
        body=JobCreate,
        answers=(created(Job, "The job, open for tasks."),),
        problems=(
            CONFLICT,
            TOO_MANY_STORED,
        ),
    ),
    Operation(
        id="getJob",
        route="GET /jobs/{job}",
        needs="read job:job",
        summary="Get a job",
        parameters=(WAIT_FOR_END,),
        answers=(ok(Job, "The job as it is, or as it ended.", ETAG),),
    ),
    Operation(
        id="putJob",
        route="PUT /jobs/{job}",
        needs="publish job:job",
        summary="Create a job, or find it",
        description=(
            "The content of a job never changes: a request with another content is refused with "
            "409. It needs the permissions that creating a job needs."
        ),
        parameters=(IF_MATCH,),
        body=JobPut,
        answers=(
            ok(Job, "It is there, made of the same.", ETAG),
            created(Job, "It was not there."),
        ),
        problems=(
            CONFLICT,
            TOO_MANY_STORED,
        ),
    ),
    Operation(
        id="deleteJob",
        route="DELETE /jobs/{job}",
        needs="manage job:job",
        summary="Delete a job",
        parameters=(
            Parameter(
                "",
                "force",
                "query",
                "Also when it has not ended: it is cancelled.",
                bool,
                default=False,
            ),
            IF_MATCH,
        ),
        answers=(no_content("Gone, with its tasks and outputs; the name is free."),),
        problems=(CONFLICT,),
    ),
    Operation(
        id="listTasks",
        route="GET /jobs/{job}/tasks",
        needs="read job:job",
        summary="List the tasks of a job",
        parameters=(TASK_STATE,),
        paged=True,
        answers=(ok(TaskPage, "One page: the map tasks by index, then the reduce task."),),
    ),
    Operation(
        id="addTasks",
        route="POST /jobs/{job}/tasks",
        needs="publish job:job",
        summary="Add map tasks",
        description=(
            "At most 1,000 and 10 MiB in one request. Repeated with the same inputs it is "
            "nothing; with others it is refused."
        ),
        body=TasksAdd,
        answers=(ok(TasksAdded, "They are there; so were those that were added before."),),
        problems=(
            CONFLICT,
            TOO_MANY_STORED,
        ),
    ),
    Operation(
        id="listOutputs",
        route="GET /jobs/{job}/outputs",
        needs="read job:job",
        summary="Read what map tasks gave",
        parameters=(FIRST_INDEX,),
        paged=True,
        answers=(
            ok(
                OutputPage,
                (
                    "One page, by index, of the tasks that are over: fewer than asked "
                    "for where they are large."
                ),
            ),
        ),
    ),
    Operation(
        id="sealJob",
        route="POST /jobs/{job}:seal",
        needs="publish job:job",
        summary="Seal a job",
        body=JobSeal,
        answers=(ok(Job, "No task comes to it any more; it ends with its tasks.", ETAG),),
        problems=(CONFLICT,),
    ),
    Operation(
        id="cancelJob",
        route="POST /jobs/{job}:cancel",
        needs="publish job:job",
        summary="Cancel a job",
        description=(
            "None of its tasks is handed out any more, workers hear of it when they extend, "
            "and its children are cancelled."
        ),
        answers=(ok(Job, "The job. One that had ended is as it was.", ETAG),),
    ),
    Operation(
        id="retryJob",
        route="POST /jobs/{job}:retry",
        needs="publish job:job",
        summary="Run failed tasks again",
        description=(
            "They begin with their first attempt. If the job failed or was cancelled, all tasks "
            "that did not succeed run again."
        ),
        answers=(ok(Job, "The job, going on.", ETAG),),
        problems=(CONFLICT,),
    ),
    Operation(
        id="listPools",
        route="GET /pools",
        needs="read pool:?",
        summary="List pools",
        paged=True,
        answers=(ok(PoolPage, "One page, by name: those with a limit, and those that jobs name."),),
    ),
    Operation(
        id="getPool",
        route="GET /pools/{pool}",
        needs="read pool:pool",
        summary="Get a pool",
        answers=(
            ok(
                Pool,
                ("The pool. One that jobs name and nobody has put has no limit, and no ETag."),
                Header("ETag", "Its version.", component=False),
            ),
        ),
    ),
    Operation(
        id="putPool",
        route="PUT /pools/{pool}",
        needs="manage pool:pool",
        summary="Limit a pool",
        parameters=(IF_MATCH,),
        body=PoolPut,
        answers=(
            ok(Pool, "The pool as it is now.", ETAG),
            created(Pool, "It had no limit of its own."),
        ),
        problems=(TOO_MANY_STORED,),
    ),
    Operation(
        id="deletePool",
        route="DELETE /pools/{pool}",
        needs="manage pool:pool",
        summary="Take the limit of a pool away",
        parameters=(IF_MATCH,),
        answers=(no_content("It has no limit. Its tasks stay."),),
    ),
    Operation(
        id="claimTasks",
        route="POST /pools/{pool}:claim",
        needs="consume pool:pool",
        summary="Claim tasks",
        description=(
            "By the priority of their jobs, and in turns between jobs of one priority. At most "
            "`max_running` of the pool are leased at once, over all processes. A lease that "
            "ends hands its task out again."
        ),
        body=TasksClaim,
        answers=(ok(Claimed, "Tasks, each leased; none where none came in time."),),
    ),
    Operation(
        id="completeTasks",
        route="POST /tasks:complete",
        needs="consume pool:?",
        summary="Complete tasks",
        description=(
            "All in one transaction. Repeated with the same lease it is answered as done. "
            "Needs `consume` on the pools of the tasks."
        ),
        body=TasksComplete,
        answers=(
            ok(
                TasksSettled,
                (
                    "Per-lease failures are in `results`; all others are completed, "
                    "their outputs kept, and counted once."
                ),
            ),
        ),
    ),
    Operation(
        id="failTasks",
        route="POST /tasks:fail",
        needs="consume pool:?",
        summary="Fail tasks",
        description=(
            "All in one transaction. Repeated with the same lease it is answered as done. "
            "Needs `consume` on the pools of the tasks."
        ),
        body=TasksFail,
        answers=(
            ok(
                TasksSettled,
                (
                    "Per-lease failures are in `results`; all others run again after "
                    "their back-off, or have failed."
                ),
            ),
        ),
    ),
    Operation(
        id="releaseTasks",
        route="POST /tasks:release",
        needs="consume pool:?",
        summary="Give tasks back",
        description=(
            "All in one transaction. Repeated with the same lease it is answered as done. "
            "Needs `consume` on the pools of the tasks."
        ),
        body=TasksRelease,
        answers=(
            ok(
                TasksSettled,
                (
                    "Per-lease failures are in `results`; all others wait again, and "
                    "the attempt does not count."
                ),
            ),
        ),
    ),
    Operation(
        id="extendTasks",
        route="POST /tasks:extend",
        needs="consume pool:?",
        summary="Extend leases",
        body=TasksExtend,
        answers=(
            ok(
                TasksExtended,
                ("Per-lease failures are in `results`; all others hold for that long from now."),
            ),
        ),
    ),
)
