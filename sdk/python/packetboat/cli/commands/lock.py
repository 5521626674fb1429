"""`packetboat lock NAME -- PROGRAM…`: a program that runs while a lock is held.

The lock is renewed each third of its time to live. When it is lost, the program is ended: SIGTERM,
and SIGKILL when it does not listen. The program finds PACKETBOAT_LOCK, PACKETBOAT_LOCK_ID and
PACKETBOAT_FENCING_TOKEN in its environment, and its exit code is ours.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import time
from contextlib import suppress
from types import FrameType
from typing import Annotated, Any

import typer

from packetboat.cli.api import Api, path
from packetboat.cli.arguments import Name
from packetboat.cli.exit_codes import ExitCode
from packetboat.cli.failures import CommandFailed
from packetboat.cli.invocation import Invocation
from packetboat.cli.shared_options import add
from packetboat.errors import Conflict, NotFound, PacketboatError

app: typer.Typer = typer.Typer()
KILL_AFTER_S = 10.0
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@add(app, "lock", example="packetboat lock nightly --wait 60 -- ./report.sh --all")
def lock(
    context: typer.Context,
    name: Name,
    program: Annotated[
        list[str], typer.Argument(metavar="-- PROGRAM…", help="The program and its arguments.")
    ],
    ttl: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="Lease of the lock; it is renewed while the program runs.",
            min=1,
        ),
    ] = 30,
    wait: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="Time to wait for another holder.", min=0, max=60),
    ] = 0,
    holder: Annotated[
        str | None, typer.Option(help="Name of the holder. Default: host:pid.")
    ] = None,
) -> None:
    """Run a program while holding a lock; exit code 5 if another holder has it."""
    here = Invocation.of(context)
    wanted = {
        "ttl_seconds": ttl,
        "wait_seconds": wait,
        "holder": holder or f"{socket.gethostname()}:{os.getpid()}",
        "request_id": secrets.token_hex(16),  # asked twice, it is still taken once
    }
    held = here.api.post(path("locks", name, verb="acquire"), wanted, safe=True, wait_s=wait)
    here.output.note(f"holding {name!r}, fencing token {held['fencing_token']}")
    try:
        code = _run(here.api, name, held, ttl, program)
    finally:
        with suppress(Conflict, NotFound):  # lost in the meantime: nothing to give back
            here.api.post(
                path("locks", name, verb="release"), {"lock_id": held["lock_id"]}, safe=True
            )
    raise typer.Exit(code)


def _run(api: Api, name: str, held: dict[str, Any], ttl_s: float, program: list[str]) -> int:
    """Run the program; return its exit code, or 128 plus the number of the signal that ended it."""
    environment = os.environ | {
        "PACKETBOAT_LOCK": name,
        "PACKETBOAT_LOCK_ID": held["lock_id"],
        "PACKETBOAT_FENCING_TOKEN": str(held["fencing_token"]),
    }
    with _Signals() as signals:
        try:
            running = subprocess.Popen(program, env=environment)
        except OSError as error:
            raise CommandFailed(f"{program[0]}: {error.strerror}") from None
        signals.go_to(running)
        try:
            code = _until_done(api, name, held["lock_id"], ttl_s, running)
        except BaseException:
            _end(running)
            raise
    return code if code >= 0 else 128 - code


def _until_done(
    api: Api, name: str, lock_id: str, ttl_s: float, running: subprocess.Popen[bytes]
) -> int:
    """Raises CommandFailed once the lock may be another's."""
    where = path("locks", name, verb="renew")
    ends_s = time.monotonic() + ttl_s
    while True:
        try:
            return running.wait(ttl_s / 3)
        except subprocess.TimeoutExpired:
            began_s = time.monotonic()
        try:
            api.post(where, {"lock_id": lock_id}, safe=True)
            ends_s = began_s + ttl_s
        except (Conflict, NotFound) as error:
            raise _lost(name, error) from error
        except PacketboatError as error:
            if time.monotonic() + ttl_s / 3 >= ends_s:
                raise _lost(name, error) from error


def _lost(name: str, error: PacketboatError) -> CommandFailed:
    return CommandFailed(
        f"the lock {name!r} is lost, the program was ended: {error}", ExitCode.CONFLICT
    )


def _end(running: subprocess.Popen[bytes]) -> None:
    running.terminate()
    try:
        running.wait(KILL_AFTER_S)
    except subprocess.TimeoutExpired:
        running.kill()
        running.wait()


class _Signals:
    """Signals that ask this process to end. The program gets them and decides what they mean; this
    process ends with it. A signal that arrives before the program has started waits."""

    def __init__(self) -> None:
        self._running: subprocess.Popen[bytes] | None = None
        self._waiting: list[int] = []
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Signals:
        self._before = {number: signal.signal(number, self._came) for number in PASSED_ON}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def go_to(self, running: subprocess.Popen[bytes]) -> None:
        self._running = running
        for number in self._waiting:
            running.send_signal(number)

    def _came(self, number: int, frame: FrameType | None) -> None:
        if self._running is None:
            self._waiting.append(number)
        else:
            self._running.send_signal(number)
