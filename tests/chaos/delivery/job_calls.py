"""The requests of owners and workers of jobs, each repeated until it is answered."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tests.chaos.delivery.caller import PAUSE_S, Caller, Reply
from tests.chaos.delivery.job_plans import Plan

SEND_AGAIN_S = 120.0


async def start(caller: Caller, plan: Plan) -> bool:
    """Makes the job with all its tasks and seals it, each until it is answered; False: it is not to
    be, or has ended."""
    steps: list[tuple[str, str, Any]] = [("PUT", "", plan.body())]
    if plan.inputs:
        half = len(plan.inputs) // 2
        for first, inputs in ((0, plan.inputs[: half + 1]), (half, plan.inputs[half:])):
            steps.append(("POST", "/tasks", {"first_index": first, "inputs": list(inputs)}))
    steps.append(("POST", ":seal", {"tasks": len(plan.inputs)}))
    for method, rest, body in steps:
        reply = await sure(caller, method, f"/jobs/{plan.name}{rest}", body)
        if not reply.ok:
            return False
    return True


async def sure(caller: Caller, method: str, path: str, body: object = None) -> Reply:
    """Repeat the request until it is answered, with any answer."""
    deadline_s = time.monotonic() + SEND_AGAIN_S
    while True:
        reply = await caller.call(method, path, body)
        if reply.status not in (0, 429) and reply.status < 500:
            return reply
        assert time.monotonic() < deadline_s, (method, path, reply)
        await asyncio.sleep(PAUSE_S)


async def outputs_of(caller: Caller, job: str) -> list[dict[str, Any]] | None:
    """Return the outputs by index; None: there is no such job."""
    return await _all(caller, f"/jobs/{job}/outputs?page_size=17", "outputs")


async def tasks_of(caller: Caller, job: str) -> list[dict[str, Any]] | None:
    """Map tasks by index, then the reduce task; None: there is no such job."""
    return await _all(caller, f"/jobs/{job}/tasks?page_size=100", "tasks")


async def _all(caller: Caller, path: str, what: str) -> list[dict[str, Any]] | None:
    found: list[dict[str, Any]] = []
    token = None
    while True:
        reply = await sure(caller, "GET", path + (f"&page_token={token}" if token else ""))
        if not reply.ok:
            return None
        found += reply.body[what]
        token = reply.body["next_page_token"]
        if token is None:
            return found


def digest(outputs: Sequence[Mapping[str, Any]]) -> str:
    """Return a digest of all outputs, as they are."""
    text = json.dumps([dict(sorted(each.items())) for each in outputs], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
