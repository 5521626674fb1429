"""A machine in a folder, with systemd as its first process, by `systemd-nspawn --boot`.

Its network is its own and has a loopback alone, so that units may have the ports that the pages
name. Programs that have to reach the world, such as pip, use the network of this machine.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

CLONE_NEWNET = 0x40000000
BOOT_S = 300.0
STOP_S = 300.0
COMMAND_S = 1800.0
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Booted:
    """Use `start`, then `halt` or `kill`. `shown`: folders of this machine that it can read, by
    where they are there."""

    def __init__(self, tree: Path, shown: Mapping[str, Path]) -> None:
        self._tree = tree
        self._shown = [f"--bind-ro={here}:{there}" for there, here in shown.items()]
        self._console = tree.with_name(f"{tree.name}.console")
        self._nspawn: subprocess.Popen[bytes] | None = None
        self.first = 0
        """Process 1 of it, as seen from outside."""

    def start(self) -> None:
        """Returns once all that it starts by itself was started, or has failed."""
        # Only a systemd here can give it a control group of its own.
        here = [] if Path("/run/systemd/system").exists() else ["--keep-unit"]
        with self._console.open("wb") as console:
            self._nspawn = subprocess.Popen(
                [
                    *("systemd-nspawn", "--quiet", "--boot", "--register=no", *here),
                    *("--private-network", "--link-journal=no", "--machine=packetboat"),
                    *(*self._shown, f"--directory={self._tree}"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
            )
        deadline_s = time.monotonic() + BOOT_S
        while time.monotonic() < deadline_s and self._nspawn.poll() is None:
            children = Path(f"/proc/{self._nspawn.pid}/task/{self._nspawn.pid}/children")
            with suppress(FileNotFoundError, IndexError, subprocess.CalledProcessError):
                self.first = int(children.read_text().split()[0])
                if self._is_up():
                    return
            time.sleep(0.1)
        raise AssertionError(f"it did not boot\n{self._console.read_text(errors='replace')}")

    def _is_up(self) -> bool:
        """Return whether the machine is up; its bus answers only after a while."""
        return self.run("systemctl is-system-running --wait || true").strip() in (
            "running",
            "degraded",
        )

    def run(self, script: str, *, outside: bool = False, **environment: str) -> str:
        """Run a shell script there; return its output and errors.

        With `outside`, the script has this machine's network. Prints the script and its output,
        then raises CalledProcessError, if it fails.
        """
        spaces = ("--mount", "--uts", "--ipc", "--pid", "--cgroup", *([] if outside else ["--net"]))
        command = ["nsenter", f"--target={self.first}", *spaces, "--root", "--wd", "--"]
        done = subprocess.run(
            [*command, "bash", "-euo", "pipefail", "-c", script],
            env={"PATH": PATH, "HOME": "/root", "SYSTEMD_COLORS": "0"} | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        if done.returncode:
            print(f"{script}\n{done.stdout}")
        done.check_returncode()
        return done.stdout

    @contextmanager
    def network(self) -> Iterator[None]:
        """Open sockets of this thread, and of threads that it starts, in the machine's network."""
        with Path("/proc/self/ns/net").open("rb") as ours:
            with Path(f"/proc/{self.first}/ns/net").open("rb") as theirs:
                _enter(theirs.fileno())
            try:
                yield
            finally:
                _enter(ours.fileno())

    def halt(self) -> None:
        """Stop the machine as an operator does."""
        assert self._nspawn is not None
        self.run("systemctl poweroff")
        self._nspawn.wait(STOP_S)

    def kill(self) -> None:
        """Kill the machine, even one that has ended. Nothing of it runs when this returns."""
        if self._nspawn is None:
            return
        if self.first and self._nspawn.poll() is None:
            # All others of its namespace are gone before it is.
            os.kill(self.first, signal.SIGKILL)
        else:
            self._nspawn.kill()
        self._nspawn.wait(STOP_S)


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
