"""The jobs API in memory: a dumb twin of the server's, for what the SDK makes of its answers."""

from __future__ import annotations

import asyncio
import itertools
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec
from packetboat.errors import PacketboatError, UnknownOutcome
from packetboat.transport import Request, Response

LIVE = ("open", "running", "reducing")
OVER = ("succeeded", "failed")
POLL_S = 0.005
CREATED = datetime(2026, 1, 5, tzinfo=UTC).isoformat()


class Refused(Exception):
    """A refusal, raised as an exception."""

    def __init__(self, status: int, slug: str) -> None:
        super().__init__(slug)
        self.status = status
        self.slug = slug

    def body(self) -> dict[str, Any]:
        kind = f"https://packetboat.dev/problems/{self.slug}"
        return {"type": kind, "title": self.slug, "status": self.status, "detail": self.slug}


@dataclass
class Task:
    index: int
    phase: str
    kind: str
    pool: str
    input: Any = None
    state: str = "waiting"
    attempt: int = 0
    lease_id: str | None = None
    lease_until: float = 0.0
    ready_at: float = 0.0
    output: Any = None
    error: str | None = None
    worker: str | None = None
    wait_for: str | None = None

    def shown(self) -> dict[str, Any]:
        names = ("index", "phase", "state", "attempt", "error", "worker")
        return {name: getattr(self, name) for name in names}


@dataclass
class Job:
    name: str
    spec: dict[str, Any]
    state: str = "open"
    tasks: dict[int, Task] = field(default_factory=dict)
    reduce_task: Task | None = None
    total: int | None = None
    result: Any = None
    error: str | None = None

    def all_tasks(self) -> list[Task]:
        maps = [task for _, task in sorted(self.tasks.items())]  # pages come in any order
        return [*maps, *([self.reduce_task] if self.reduce_task else [])]

    def shown(self) -> dict[str, Any]:
        states = [task.state for task in self.tasks.values()]
        names = ("waiting", "running", "delayed", "succeeded", "failed", "cancelled")
        counts = {name: states.count(name) for name in names} | {"total": len(states)}
        counts["running"] += states.count("waiting_for_job")
        members = {"state": self.state, "tasks": counts, "created_at": CREATED}
        return (
            self.spec | {"name": self.name} | members | {"result": self.result, "error": self.error}
        )


class JobsTwin:
    """`clock` may be a test's own. `log` has each request as `POST /tasks:complete`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.jobs: dict[str, Job] = {}
        self.pools: dict[str, int | None] = {}
        self.log: list[str] = []
        self.claims: list[dict[str, Any]] = []
        self.most_running: dict[str, int] = {}
        self.latency_s = 0.0
        self.faults: list[Callable[[Request], None]] = []
        """Each sees each request before it is done, and may raise."""
        self.lost_replies: list[str] = []
        """Parts of paths: the next request to each is done, and its reply lost."""
        self._lock = threading.Lock()
        self._leases: dict[str, tuple[Job, Task]] = {}
        self._running: dict[str, tuple[Job, Task]] = {}
        """The leases of `_leases` that had not ended when they were last checked."""
        self._numbers = itertools.count(1)
        self._turns: dict[str, int] = {}

    # Transport.

    def answer(self, request: Request) -> Response | None:
        """Return the answer to a request; None means that there is no answer yet."""
        try:
            with self._lock:
                self._expire()
                found = self._route(request)
        except Refused as refused:
            return Response(refused.status, {}, msgspec.json.encode(refused.body()))
        return None if found is None else Response(200, {}, msgspec.json.encode(found))

    def begin(self, request: Request) -> float:
        """Log a request and apply the faults; return how many seconds it may wait."""
        self.log.append(f"{request.method} {urlsplit(request.path).path}")
        for fault in self.faults:
            fault(request)
        query = parse_qs(urlsplit(request.path).query)
        body = msgspec.json.decode(request.body) if request.body else {}
        return float(query.get("wait_seconds", [body.get("wait_seconds", 0)])[0])

    def end(self, request: Request) -> None:
        for text in self.lost_replies:
            if text in request.path:
                self.lost_replies.remove(text)
                raise UnknownOutcome("the reply is lost")

    def _route(self, request: Request) -> Any:
        path, _, query = request.path.partition("?")
        body = msgspec.json.decode(request.body) if request.body else {}
        asked = {name: values[0] for name, values in parse_qs(query).items()}
        for method, pattern, handler in ROUTES:
            if request.method == method and (found := re.fullmatch(pattern, path)):
                return handler(self, *(unquote(part) for part in found.groups()), body | asked)
        raise Refused(404, "not-found")

    # Jobs.

    def put_job(self, name: str, body: dict[str, Any]) -> Any:
        spec = {"pool": "default", "max_attempts": 5, "on_failure": "fail", "labels": {}} | body
        job = self.jobs.get(name)
        if job is None:
            if parent := spec.get("parent"):
                self._live(parent["job"])
            job = self.jobs[name] = Job(name, spec)
        elif job.spec != spec:
            raise Refused(409, "job-exists")
        return job.shown()

    def get_job(self, name: str, asked: dict[str, Any]) -> Any:
        job = self._job(name)
        return None if asked.get("wait_seconds") and job.state in LIVE else job.shown()

    def list_jobs(self, asked: dict[str, Any]) -> Any:
        jobs = [self.jobs[name] for name in sorted(self.jobs)]
        wanted = [job for job in jobs if asked.get("state") in (None, job.state)]
        return _page("jobs", [job.shown() for job in wanted], asked)

    def delete_job(self, name: str, asked: dict[str, Any]) -> Any:
        if self._job(name).state in LIVE and asked.get("force") != "true":
            raise Refused(409, "job-not-finished")
        return self.jobs.pop(name).shown()

    def add_tasks(self, name: str, body: dict[str, Any]) -> Any:
        job = self._job(name)
        for index, each in enumerate(body["inputs"], body["first_index"]):
            known = job.tasks.get(index)
            if known is not None and known.input != each:
                raise Refused(409, "task-exists")
            if known is None:
                if job.state != "open":
                    raise Refused(409, "job-sealed")
                spec = job.spec
                job.tasks[index] = Task(index, "map", spec["map"], spec["pool"], each)
        return {}

    def seal_job(self, name: str, body: dict[str, Any]) -> Any:
        job = self._job(name)
        if job.total not in (None, body["tasks"]) or len(job.tasks) != body["tasks"]:
            raise Refused(409, "job-sealed")
        if job.state == "open":
            job.state, job.total = "running", body["tasks"]
        self._advance(job)
        return job.shown()

    def cancel_job(self, name: str, body: dict[str, Any]) -> Any:
        job = self._job(name)
        if job.state in LIVE:
            self._end(job, "cancelled", error="it was cancelled")
        return job.shown()

    def retry_job(self, name: str, body: dict[str, Any]) -> Any:
        job = self._job(name)
        if job.state not in ("failed", "cancelled"):
            raise Refused(409, "job-not-failed")
        for task in job.all_tasks():
            if task.state != "succeeded":
                task.state, task.attempt, task.lease_id = "waiting", 0, None
        job.state = "open" if job.total is None else "reducing" if job.reduce_task else "running"
        job.error = None
        return job.shown()

    def list_tasks(self, name: str, asked: dict[str, Any]) -> Any:
        tasks = [t for t in self._job(name).all_tasks() if asked.get("state") in (None, t.state)]
        return _page("tasks", [task.shown() for task in tasks], asked)

    def list_outputs(self, name: str, asked: dict[str, Any]) -> Any:
        found = []
        for index, task in sorted(self._job(name).tasks.items()):
            if index >= int(asked.get("first_index", 0)):
                if task.state == "succeeded":
                    found.append({"index": index, "output": task.output})
                elif task.state == "failed":
                    found.append({"index": index, "error": task.error})
        return _page("outputs", found, asked)

    # Pools.

    def put_pool(self, name: str, body: dict[str, Any]) -> Any:
        self.pools[name] = body["max_running"]
        return self.get_pool(name, {})

    def get_pool(self, name: str, asked: dict[str, Any]) -> Any:
        states = [
            task.state
            for job in self.jobs.values()
            for task in job.all_tasks()
            if task.pool == name
        ]
        counts = {state: states.count(state) for state in ("running", "waiting")}
        return {"name": name, "max_running": self.pools.get(name)} | counts

    def list_pools(self, asked: dict[str, Any]) -> Any:
        return _page("pools", [self.get_pool(name, {}) for name in sorted(self.pools)], asked)

    def delete_pool(self, name: str, asked: dict[str, Any]) -> Any:
        self.pools.pop(name)
        return {}

    def claim(self, pool: str, body: dict[str, Any]) -> Any:
        limit = self.pools.get(pool)
        running = self._running_of(pool)
        room = body["max_tasks"] if limit is None else min(body["max_tasks"], limit - running)
        claimed = [
            self._lease(job, task, body)
            for job, task in itertools.islice(self._claimable(pool, body["kinds"]), max(room, 0))
        ]
        if not claimed and body.get("wait_seconds"):
            return None
        self.claims.append({"pool": pool, "tasks": len(claimed)})
        self.most_running[pool] = max(self._running_of(pool), self.most_running.get(pool, 0))
        return {"tasks": claimed}

    def _running_of(self, pool: str) -> int:
        self._forget_ended()
        return sum(task.pool == pool for _, task in self._running.values())

    def _forget_ended(self) -> None:
        ended = [
            lease_id
            for lease_id, (_, task) in self._running.items()
            if task.state != "running" or task.lease_id != lease_id
        ]
        for lease_id in ended:
            del self._running[lease_id]

    def _claimable(self, pool: str, kinds: list[str]) -> Iterator[tuple[Job, Task]]:
        live = [job for job in self.jobs.values() if job.state in LIVE]
        live.sort(key=lambda job: (-job.spec.get("priority", 0), self._turns.get(job.name, 0)))
        for job in live:
            for task in job.all_tasks():
                ready = task.state == "waiting" or (
                    task.state == "delayed" and task.ready_at <= self.clock()
                )
                if ready and task.pool == pool and task.kind in kinds:
                    yield job, task

    def _lease(self, job: Job, task: Task, body: dict[str, Any]) -> dict[str, Any]:
        number = next(self._numbers)
        self._turns[job.name] = number
        task.state, task.attempt, task.worker = "running", task.attempt + 1, body["worker"]
        task.lease_id = f"lease-{number}"
        task.lease_until = self.clock() + body["lease_seconds"]
        self._leases[task.lease_id] = self._running[task.lease_id] = (job, task)
        names = ("lease_id", "index", "phase", "kind", "input", "attempt")
        shown = {name: getattr(task, name) for name in names}
        total = None
        if task.phase == "reduce":
            total = sum(each.state == "succeeded" for each in job.tasks.values())
        return shown | {"job": job.name, "labels": job.spec["labels"], "inputs_total": total}

    # Leases.

    def complete(self, body: dict[str, Any]) -> Any:
        if any(item.get("output") == "refuse me" for item in body["tasks"]):
            raise Refused(422, "invalid-body")
        return self._each(body["tasks"], self._complete)

    def fail(self, body: dict[str, Any]) -> Any:
        return self._each(body["tasks"], self._fail)

    def release(self, body: dict[str, Any]) -> Any:
        return self._each([{"lease_id": each} for each in body["lease_ids"]], self._release)

    def extend(self, body: dict[str, Any]) -> Any:
        ids = body["lease_ids"]
        gone = [
            each for each in ids if each in self._leases and self._leases[each][0].state not in LIVE
        ]

        def extend(job: Job, task: Task, item: dict[str, Any]) -> None:
            task.lease_until = self.clock() + body["lease_seconds"]

        items = [{"lease_id": each} for each in ids]
        return self._each(items, extend, tolerated=gone) | {"cancelled": gone}

    def _each(self, items: list[dict[str, Any]], act: Any, tolerated: Any = ()) -> dict[str, Any]:
        failures = []
        for index, item in enumerate(items):
            job, task = self._leases.get(item["lease_id"], (None, None))
            if item["lease_id"] in tolerated:
                continue
            try:
                if task is None or task.lease_id != item["lease_id"]:
                    raise Refused(409, "lease-lost")
                if task.state == "running":
                    if job.state not in LIVE:
                        raise Refused(409, "lease-lost")
                    act(job, task, item)
            except Refused as refused:
                failures.append(refused.body() | {"index": index, "lease_id": item["lease_id"]})
        return {"done": len(items) - len(failures), "results": failures}

    def _complete(self, job: Job, task: Task, item: dict[str, Any]) -> None:
        if (child := item.get("wait_for")) is not None:
            if child not in self.jobs:
                raise Refused(409, "no-child")
            task.state, task.wait_for = "waiting_for_job", child
            self._resolve(self.jobs[child])
            return
        self._succeed(job, task, item.get("output"))

    def _succeed(self, job: Job, task: Task, output: Any) -> None:
        task.state, task.output = "succeeded", output
        if task.phase == "reduce":
            self._end(job, "succeeded", result=output)
        else:
            self._advance(job)

    def _fail(self, job: Job, task: Task, item: dict[str, Any]) -> None:
        task.error = item["error"]
        if item.get("retry", True) and task.attempt < job.spec["max_attempts"]:
            retry = job.spec.get("retry") or {}
            delay_s = item.get("delay_seconds", retry.get("min_backoff_seconds", 0.01))
            task.state, task.ready_at = "delayed", self.clock() + delay_s
            return
        self._fail_for_good(job, task)

    def _fail_for_good(self, job: Job, task: Task) -> None:
        task.state = "failed"
        failed = sum(each.state == "failed" for each in job.tasks.values())
        most = job.spec.get("max_failed")
        borne = job.spec["on_failure"] == "continue" and (most is None or failed <= most)
        if task.phase == "reduce" or not borne:
            self._end(job, "failed", error=f"task {task.index} failed: {task.error}")
        else:
            self._advance(job)

    def _release(self, job: Job, task: Task, item: dict[str, Any]) -> None:
        task.state, task.attempt = "waiting", task.attempt - 1

    def _advance(self, job: Job) -> None:
        if job.state != "running" or len(job.tasks) < (job.total or 0):
            return
        # The last is mostly the last to end: to look there first keeps a long job quick.
        if any(task.state not in OVER for task in reversed(job.tasks.values())):
            return
        if (kind := job.spec.get("reduce")) is None:
            self._end(job, "succeeded")
            return
        job.state = "reducing"
        pool = job.spec.get("reduce_pool") or job.spec["pool"]
        job.reduce_task = Task(0, "reduce", kind, pool)

    def _end(self, job: Job, state: str, result: Any = None, error: str | None = None) -> None:
        job.state, job.result, job.error = state, result, error
        for task in job.all_tasks():
            if state != "succeeded" and task.state not in ("succeeded", "failed", "running"):
                task.state = "cancelled"
        for child in self.jobs.values():
            ours = (child.spec.get("parent") or {}).get("job") == job.name
            if ours and state != "succeeded" and child.state in LIVE:
                self._end(child, "cancelled", error="its parent has ended")
        self._resolve(job)

    def _resolve(self, child: Job) -> None:
        """Settle the task that waits for a job, once the job has ended."""
        if child.state in LIVE or not child.spec.get("parent"):
            return
        parent = self.jobs[child.spec["parent"]["job"]]
        for task in parent.all_tasks():
            if task.wait_for == child.name and task.state == "waiting_for_job":
                if child.state == "succeeded":
                    self._succeed(parent, task, child.result)
                else:
                    task.error = f"its job was {child.state}: {child.error}"
                    self._fail_for_good(parent, task)

    def _expire(self) -> None:
        self._forget_ended()
        for job, task in list(self._running.values()):
            live = job.state in LIVE and self.jobs.get(job.name) is job
            if live and task.lease_until <= self.clock():
                task.lease_id, task.state = None, "waiting"
                if task.attempt >= job.spec["max_attempts"]:
                    task.error = "its lease ended"
                    self._fail_for_good(job, task)

    def _job(self, name: str) -> Job:
        if name not in self.jobs:
            raise Refused(404, "job-not-found")
        return self.jobs[name]

    def _live(self, name: str) -> None:
        if self._job(name).state not in LIVE:
            raise Refused(409, "job-finished")


def _page(member: str, items: list[Any], asked: dict[str, Any]) -> dict[str, Any]:
    first = int(asked.get("page_token", 0))
    last = first + int(asked["page_size"])
    token = str(last) if last < len(items) else None
    return {member: items[first:last], "next_page_token": token}


ROUTES: tuple[tuple[str, str, Any], ...] = (
    ("PUT", r"/jobs/([^/:]+)", JobsTwin.put_job),
    ("GET", r"/jobs/([^/:]+)", JobsTwin.get_job),
    ("DELETE", r"/jobs/([^/:]+)", JobsTwin.delete_job),
    ("GET", r"/jobs", JobsTwin.list_jobs),
    ("POST", r"/jobs/([^/:]+)/tasks", JobsTwin.add_tasks),
    ("GET", r"/jobs/([^/:]+)/tasks", JobsTwin.list_tasks),
    ("GET", r"/jobs/([^/:]+)/outputs", JobsTwin.list_outputs),
    ("POST", r"/jobs/([^/:]+):seal", JobsTwin.seal_job),
    ("POST", r"/jobs/([^/:]+):cancel", JobsTwin.cancel_job),
    ("POST", r"/jobs/([^/:]+):retry", JobsTwin.retry_job),
    ("PUT", r"/pools/([^/:]+)", JobsTwin.put_pool),
    ("GET", r"/pools/([^/:]+)", JobsTwin.get_pool),
    ("DELETE", r"/pools/([^/:]+)", JobsTwin.delete_pool),
    ("GET", r"/pools", JobsTwin.list_pools),
    ("POST", r"/pools/([^/:]+):claim", JobsTwin.claim),
    ("POST", r"/tasks:complete", JobsTwin.complete),
    ("POST", r"/tasks:fail", JobsTwin.fail),
    ("POST", r"/tasks:extend", JobsTwin.extend),
    ("POST", r"/tasks:release", JobsTwin.release),
)


class AsyncTwinTransport:
    """A transport of an AsyncClient; its long polls look again and again."""

    def __init__(self, twin: JobsTwin) -> None:
        self._twin = twin

    async def send(self, request: Request) -> Response:
        await asyncio.sleep(self._twin.latency_s)
        ends_s = time.monotonic() + self._twin.begin(request)
        while (response := self._twin.answer(_patient(request, ends_s))) is None:
            await asyncio.sleep(POLL_S)
        self._twin.end(request)
        return response

    def stream(self, request: Request) -> Any:
        raise PacketboatError("jobs have no streams")

    async def close(self) -> None:
        """Nothing is open."""


class TwinTransport:
    """A transport of a Client."""

    def __init__(self, twin: JobsTwin) -> None:
        self._twin = twin

    def send(self, request: Request) -> Response:
        return asyncio.run(AsyncTwinTransport(self._twin).send(request))

    def stream(self, request: Request) -> Any:
        raise PacketboatError("jobs have no streams")

    def close(self) -> None:
        """Nothing is open."""


def _patient(request: Request, ends_s: float) -> Request:
    """Return the request without its wait, once the wait is over."""
    if time.monotonic() < ends_s:
        return request
    path = re.sub(r"[?&]wait_seconds=[^&]*", "", request.path)
    body = msgspec.json.decode(request.body) if request.body else None
    if isinstance(body, dict) and "wait_seconds" in body:
        return request._replace(body=msgspec.json.encode(body | {"wait_seconds": 0}))
    return request._replace(path=path)
