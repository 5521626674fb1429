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
    CreatedAt,
    Labels,
    Name,
    NextPageToken,
    Positive,
    Problem,
    ShownLabels,
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
    """Back-off between the attempts of a task, doubled each time."""

    min_backoff_seconds: Backoff = 1.0
    """Seconds before the second attempt."""
    max_backoff_seconds: Backoff = 600.0
    """Seconds that an attempt waits at most."""


class JobParent(Body):
    """The task that waits for a nested job."""

    job: Name
    """The name of the job that has the task."""
    index: Number
    """The number of the task, from 0; a reduce task has 0."""
    phase: Phase = "map"
    """The phase of the task."""


class TaskCounts(Answer):
    """Numbers of map tasks. A task that waits for a child counts as running, and a task that waits
    for its back-off as delayed."""

    total: Count
    """The number of map tasks."""
    waiting: Count
    """The number of tasks that wait for a worker."""
    running: Count
    """The number of tasks that are leased or wait for a nested job."""
    delayed: Count
    """The number of tasks that wait for the end of their back-off."""
    succeeded: Count
    """The number of tasks that gave an output."""
    failed: Count
    """The number of tasks that failed and have no attempts left."""
    cancelled: Count
    """The number of tasks that ended with their job before they gave an output."""


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


class Job(Answer):
    """A job as it stands."""

    DESCRIBED_BY = JobContent

    name: str
    """The name of the job."""
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
    labels: ShownLabels
    state: JobState
    """`open` until it is sealed."""
    tasks: TaskCounts
    """The numbers of its map tasks by state."""
    result: Any
    """The output of the reduce task, any JSON; null in a listing."""
    error: str | None
    """The reason that it failed, or that it was cancelled."""
    created_at: CreatedAt
    finished_at: datetime | None
    """The time at which it succeeded, failed or was cancelled; null before."""


class JobPage(Answer):
    """One page of jobs."""

    jobs: list[Job]
    """The jobs of this page, by name."""
    next_page_token: NextPageToken


class JobCreate(JobContent):
    """A request to create a job."""

    name: Name
    """The name of the job, unique in the tenant."""


class JobPut(JobContent):
    """A job as a whole; its name may be left out."""

    name: Name | UnsetType = UNSET
    """The name of the job; that of the path, if it is given."""


class JobTask(Answer):
    """A task of a job as it stands."""

    index: int
    """The number of a map task, from 0; the reduce task has 0."""
    phase: Phase
    """Whether it is a map task or the reduce task."""
    state: TaskState
    """The state of the task; `waiting` is for a worker, `delayed` for the end of a back-off, and
    `waiting_for_job` for a nested job."""
    attempt: int
    """The first is 1; 0 before it."""
    error: str | None
    """The error of the last attempt that failed."""
    worker: str | None
    """The name that the last worker gave itself; null where it gave none, and before the first
    attempt."""
    wait_for: str | None
    """The child whose result is to be its output."""
    lease_until: datetime | None
    """The time until which a worker leases it; null where none does."""
    started_at: datetime | None
    """The time at which the last attempt began; null before the first."""
    finished_at: datetime | None
    """The time at which it ended; null before."""


class TaskPage(Answer):
    """One page of tasks."""

    tasks: list[JobTask]
    """The tasks of this page, by their number, and the reduce task last."""
    next_page_token: NextPageToken


class TasksAdd(Body):
    """A request to add map tasks to an open job."""

    first_index: Annotated[int, Meta(ge=0, le=MAX_JOB_TASKS - 1)]
    """The number of the first input's task; the others follow."""
    inputs: Annotated[list[Any], Meta(min_length=1, max_length=MAX_TASKS_AT_ONCE)]
    """Any JSON, each at most 64 KiB."""


class TasksAdded(Answer):
    """The size of a job."""

    total: int
    """The number of map tasks that the job has now."""


class TaskOutput(Answer):
    """The output of a map task as JSON, or the reason that it has none."""

    index: int
    """The number of the map task, from 0."""
    output: Any = UNSET
    """Any JSON, from a task that succeeded."""
    error: str | UnsetType = UNSET
    """The error of a task that failed."""


class OutputPage(Answer):
    """One page of outputs."""

    outputs: list[TaskOutput]
    """The outputs of this page, by the number of their task."""
    next_page_token: NextPageToken


class JobSeal(Body):
    """A request to seal a job: no task is added any more."""

    tasks: Annotated[int, Meta(ge=0, le=MAX_JOB_TASKS)]
    """The number of its map tasks; their indices are 0 to one less."""


class PoolPut(Body):
    """The limit of a pool."""

    max_running: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    """Most tasks of the pool that are leased at once; null is no limit, and 0 leases none."""


class Pool(Answer):
    """A kind of work with a limit of its own, over all workers."""

    DESCRIBED_BY = PoolPut

    name: str
    """The name of the pool."""
    max_running: int | None
    running: Count
    """The number of its tasks that are leased now."""
    waiting: Count
    """The number of its tasks that wait for a worker."""


class PoolPage(Answer):
    """One page of pools."""

    pools: list[Pool]
    """The pools of this page, by name."""
    next_page_token: NextPageToken


class TasksClaim(Body):
    """A request for tasks."""

    kinds: Annotated[list[Kind], Meta(min_length=1, max_length=100)]
    """The kinds of tasks that this worker can run."""
    max_tasks: Annotated[int, Meta(ge=1, le=MAX_LEASES_AT_ONCE)] = 1
    """The most tasks of the answer."""
    wait_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.0
    """Seconds to wait for the first task."""
    lease_seconds: LeaseSeconds = 30.0
    """Seconds that the leases hold unless they are extended."""
    worker: Text | None = None
    """A name of the worker that others are shown."""


class ClaimedTask(Answer):
    """A leased task: complete it before its lease ends, or it is leased again."""

    lease_id: str
    """The id of this holding of the task."""
    job: str
    """The name of the job."""
    index: int
    """The number of a map task, from 0; a reduce task has 0."""
    phase: Phase
    """Whether it is a map task or the reduce task."""
    kind: str
    """The kind of the task: the name that its job gave."""
    input: Any
    """Any JSON; null for a reduce task."""
    attempt: Positive
    """The first is 1."""
    lease_until: datetime
    """The time at which the lease ends, unless it is extended."""
    labels: dict[str, str]
    """The labels of the job."""
    inputs_total: int | None
    """The number of map tasks that succeeded, for a reduce task."""


class Claimed(Answer):
    """The answer to a claim."""

    tasks: list[ClaimedTask]
    """The leased tasks; empty where none came in time."""


class TaskCompletion(Body):
    """The end of a leased task that succeeded, or that waits for a nested job."""

    lease_id: LeaseId
    """The id of the lease, as the claim gave it."""
    output: Any = UNSET
    """Any JSON, at most 256 KiB; null without it."""
    wait_for: Name | None = None
    """A job whose parent this task is, instead: its result will be the output of this task, or its
    failure the failure of this task."""


class TasksComplete(Body):
    """A request to complete tasks."""

    tasks: Annotated[list[TaskCompletion], Meta(min_length=1, max_length=MAX_LEASES_AT_ONCE)]
    """The tasks and their outputs."""


class LeaseFailure(Answer):
    """The reason that one lease was not settled."""

    index: int
    """The place of the lease in the request, from 0."""
    lease_id: str
    """The id of the lease."""
    status: int
    """The status that a request for this lease alone would get."""
    type: str
    """The type of the problem."""
    detail: str
    """The reason, for people."""


class TasksSettled(Answer):
    """The result of a completion, failing or release."""

    done: int
    """The number of leases that it was done for."""
    results: list[LeaseFailure]
    """The leases that it was not done for; empty where it was done for all."""


class TaskFailing(Body):
    """The end of a leased task that failed."""

    lease_id: LeaseId
    """The id of the lease, as the claim gave it."""
    error: Annotated[str, Meta(max_length=MAX_ERROR_CHARS)]
    """The reason, for people."""
    retry: bool = True
    """Whether the task gets a further attempt."""
    delay_seconds: Backoff | None = None
    """Seconds until the next attempt, instead of the job's back-off."""


class TasksFail(Body):
    """A request to fail tasks."""

    tasks: Annotated[list[TaskFailing], Meta(min_length=1, max_length=MAX_LEASES_AT_ONCE)]
    """The tasks and their errors."""


class TasksRelease(Body):
    """A request to return tasks without counting an attempt."""

    lease_ids: LeaseIds
    """The ids of the leases, as the claim gave them."""


class TasksExtend(Body):
    """A request to hold leases for longer."""

    lease_ids: LeaseIds
    """The ids of the leases, as the claim gave them."""
    lease_seconds: LeaseSeconds = 30.0
    """Seconds that the leases hold from now on."""


class TasksExtended(Answer):
    """The result of an extension."""

    DESCRIBED_BY = TasksSettled

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
            "None of its tasks can be claimed any more, workers hear of it when they extend, "
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
