"""The program of a worker process (`edge/process_pool.py`), which calls functions for its parent.

It makes one call at a time, and the kernel ends it once a call has used its CPU time. It reads and
writes frames of four bytes of length and MessagePack. It has no secrets: it inherits nothing of its
parent's environment, and no open file but these. The processes that serve requests have the
processor before it: the work of one tenant, on all processors, made others wait five times as long.
"""

from __future__ import annotations

import importlib
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, BinaryIO

import msgspec

from edge.problem import Problem, ProblemForm

MAX_MEMORY_BYTES = 2 * 1024**3
"""Bytes of address space; a call that needs more fails with MemoryError."""
LENGTH_BYTES = 4
NICENESS = 5
"""The kernel gives it a third of the time of a process that serves. On a busy machine, a large body
is still read within the time that a call may take.
"""


class Call(msgspec.Struct, array_like=True):
    """A call of a function of a module; `limit_s` is of CPU time."""

    limit_s: float
    module: str
    function: str
    arguments: list[Any]


class Reply(msgspec.Struct, array_like=True):
    """The reply to a call; `failure` names the exception that was raised, unless it was a
    Problem.
    """

    cpu_s: float
    result: Any = None
    failure: str | None = None
    problem: ProblemForm | None = None


def framed(message: Call | Reply) -> bytes:
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def answer(call: Call, limit_cpu: Callable[[float], None]) -> Reply:
    """Call the function.

    Tell `limit_cpu` the seconds of CPU time that it may use, and 0 afterwards.
    """
    began_s = time.process_time()
    try:
        function: Callable[..., Any] = getattr(importlib.import_module(call.module), call.function)
        limit_cpu(call.limit_s)
        began_s = time.process_time()
        result = function(*call.arguments)
    except Problem as problem:
        limit_cpu(0)
        return Reply(time.process_time() - began_s, problem=problem.form())
    except Exception as error:
        limit_cpu(0)
        return Reply(time.process_time() - began_s, failure=f"{type(error).__name__}: {error}")
    limit_cpu(0)
    return Reply(time.process_time() - began_s, result)


def _limit_cpu(seconds: float) -> None:
    """Limit the CPU time from now on.

    SIGPROF has no handler, so it ends the process, even within a library that never comes back to
    Python.
    """
    signal.setitimer(signal.ITIMER_PROF, seconds)


def _serve(calls: BinaryIO, replies: BinaryIO) -> None:
    """Make calls until the parent closes the pipe or dies."""
    decoder = msgspec.msgpack.Decoder(Call)
    while length := calls.read(LENGTH_BYTES):
        call = decoder.decode(calls.read(int.from_bytes(length, "big")))
        replies.write(framed(answer(call, _limit_cpu)))
        replies.flush()


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    with os.fdopen(os.dup(1), "wb") as replies:
        os.dup2(2, 1)  # A library's output must not be taken for a reply.
        _serve(sys.stdin.buffer, replies)


if __name__ == "__main__":
    main()
