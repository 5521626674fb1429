"""Programs of tests that look into the processes of a real `packetboat up`.

`run` does what `python -P gateway` does. In each server and store node it calls `prepare` first,
before anything of the product is imported: a module that takes a function as a default takes the
one that `prepare` put there. `answer` lets the program that started the installation ask a process,
on a socket in the file system.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.e2e.installation import Installation

SOCKETS = "TEST_SOCKETS"
"""The environment variable that names the directory of the sockets."""
PATIENCE_S = 30.0


def watch(installation: Installation, program: Path) -> Path:
    """Have an installation start its processes with `program`; return the directory of sockets."""
    sockets = installation.directory.with_suffix(".sockets")
    sockets.mkdir()
    installation.program = ("-P", str(program))
    installation.settings |= {SOCKETS: str(sockets)}
    return sockets


def run(program: Path, prepare: Callable[[str], None]) -> None:
    """Run the command of this process; its children are started anew with `program`, too."""
    command = sys.argv[1]
    if command in ("serve", "store-node"):
        prepare(command)
    elif command == "up":
        from gateway.up import fork_server, supervisor
        from gateway.up.child import launch_anew

        supervisor.PROGRAM = program.resolve()
        fork_server.run = lambda supervise: supervise(launch_anew)  # type: ignore[assignment]
    from gateway.command import main

    main()


def answer(read: Callable[[], bytes]) -> None:
    """Answer each connection to this process's socket with what `read` returns."""
    threading.Thread(target=_answer, args=(read,), daemon=True).start()


def _answer(read: Callable[[], bytes]) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(Path(os.environ[SOCKETS]) / f"{os.getpid()}.sock"))
    listener.listen()
    while True:
        with listener.accept()[0] as asker:
            asker.sendall(read())


def ask(sockets: Path, pid: int) -> bytes:
    """Return the answer of a process."""
    with socket.socket(socket.AF_UNIX) as asked:
        asked.settimeout(PATIENCE_S)
        asked.connect(str(sockets / f"{pid}.sock"))
        parts = []
        while part := asked.recv(1 << 20):
            parts.append(part)
    return b"".join(parts)
