"""A program whose supervisor asks for processes that tell what they are.

`python -m tests.unit.gateway.forking_program LOG`: the supervisor starts two processes, one after
the other, and waits for a signal; it exits with the signal's number. `... LOG cancel`: it gives up
a start before it is answered.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path

from gateway.middleware.request_id import request_id
from gateway.up import fork_server
from gateway.up.child import Child, Launch

COMMAND = [sys.executable, "-P", "program", "work"]


def supervise(launch: Launch) -> int:
    return asyncio.run(_supervise(launch, Path(sys.argv[1]), sys.argv[2:] == ["cancel"]))


async def _supervise(launch: Launch, log: Path, cancel: bool) -> int:
    told: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set_result, int(number))
    if cancel:
        given_up = Child("given up", COMMAND, {"HOLD": "1"}, log, launch=launch)
        starting = asyncio.ensure_future(given_up.start())
        while len(forked()) < 2:  # The answer is there, and nobody has read it.
            await asyncio.sleep(0)
            time.sleep(0.01)  # noqa: ASYNC251
        starting.cancel()
        await asyncio.wait([starting])
    short = Child("short", COMMAND, {"GIVEN": "1"}, log, launch=launch)
    await short.start()
    ended = await short.wait()
    long = Child("long", COMMAND, {"HOLD": "1"}, log, launch=launch)
    await long.start()
    own_id = request_id(None).decode()
    print(json.dumps([os.getpid(), short.pid, ended, long.pid, own_id]), flush=True)
    return await told


def forked() -> list[str]:
    """Return the processes that the first one has forked; the supervisor is one of them."""
    parent = os.getppid()
    return Path(f"/proc/{parent}/task/{parent}/children").read_text().split()


def work() -> None:
    """Tell what this process is; wait for a signal where HOLD is set."""
    if "HOLD" in os.environ:
        signal.pause()
    told = {
        "argv": sys.argv,
        "orig_argv": sys.orig_argv,
        "shown": Path("/proc/self/cmdline").read_bytes().rstrip(b"\0").decode().split("\0"),
        "environment": dict(os.environ),
        "session": os.getsid(0) == os.getpid(),
        "input": sys.stdin.read(),
        "umask": os.umask(0),
        "handlers": [int(signal.getsignal(n) is signal.SIG_DFL) for n in (15, 1)],
        "request": request_id(None).decode(),
    }
    print(json.dumps(told), flush=True)
    sys.exit(7)


if __name__ == "__main__":
    outcome = fork_server.run(supervise, [["json"]])
    if isinstance(outcome, fork_server.Start):
        work()
    sys.exit(outcome)
