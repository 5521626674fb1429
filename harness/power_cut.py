"""A disk of our own that can lose its power: an ext4 image on a loop device.

`cut` stops the file system as a power failure does (EXT4_IOC_SHUTDOWN without a log flush): nothing
more reaches the image, neither data nor journal, every open file answers EIO from then on, and
`remount` replays the journal and shows what was there. It needs root, loop devices and mkfs.ext4;
`unavailable` says what is missing.

A power failure also stops the processor, `cut` does not: an fdatasync that is under way while the
file system stops was seen to return success for data that never reached the image (its journal
commit is dropped without an error), and a process that still runs would acknowledge it. So
`freeze` the processes that use the disk first, then cut, then kill them. The acknowledgements of
a process that is not frozen may be lies from the cut on.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

_EXT4_IOC_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = struct.pack("I", 2)
UNMOUNT_TIMEOUT_S = 10.0
FREEZE_TIMEOUT_S = 5.0


class Ext4Image:
    """One image file (sparse) and its mount point below `directory`; a context manager.

    with Ext4Image(tmp_path / "node-1") as disk:
        ...  # write below disk.mount_point
        disk.cut()
        ...  # end the processes that have files open there
        disk.remount()
    """

    def __init__(self, directory: Path, size_mb: int = 128) -> None:
        self.image = directory / "disk.img"
        self.mount_point = directory / "mnt"
        self.mounted = False
        self._size_mb = size_mb

    def __enter__(self) -> Ext4Image:
        try:
            self.make()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()

    def make(self) -> None:
        """Make a new, empty file system, and mount it."""
        self.mount_point.mkdir(parents=True, exist_ok=True)
        with self.image.open("wb") as file:
            file.truncate(self._size_mb << 20)
        _run(_tool("mkfs.ext4") or "mkfs.ext4", "-q", "-F", str(self.image))
        self.mount()

    def mount(self) -> None:
        _run("mount", "-o", "loop", str(self.image), str(self.mount_point))
        self.mounted = True

    def cut(self) -> None:
        """Lose the power. Works under load; processes with open files see EIO from here on."""
        fd = os.open(self.mount_point, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(fd, _EXT4_IOC_SHUTDOWN, _NO_LOG_FLUSH)
        finally:
            os.close(fd)

    def unmount(self) -> None:
        """Waits a little for processes that were just ended to let go."""
        deadline = time.monotonic() + UNMOUNT_TIMEOUT_S
        while self.mounted:
            try:
                _run("umount", str(self.mount_point))
                self.mounted = False
            except subprocess.CalledProcessError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def remount(self) -> None:
        """Power on again: the journal is replayed as at a boot."""
        self.unmount()
        self.mount()

    def remove(self) -> None:
        """Remove the file system; its unmount is lazy when somebody still has files open there."""
        if self.mounted:
            with contextlib.suppress(subprocess.CalledProcessError):
                self.unmount()
            if self.mounted:
                subprocess.run(["umount", "-l", str(self.mount_point)], check=False)
                self.mounted = False
        self.image.unlink(missing_ok=True)


def freeze(*pids: int) -> None:
    """Send SIGSTOP, and wait until none of their threads runs any more.

    A thread inside a system call on the disk may stay there: it stops before it returns from it.
    """
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + FREEZE_TIMEOUT_S
    while any(_runs(stat) for pid in pids for stat in Path(f"/proc/{pid}/task").glob("*/stat")):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{pids} still run")


def _runs(stat: Path) -> bool:
    """Return whether it is neither stopped nor dead nor uninterruptible.

    The state follows the name in parentheses.
    """
    try:
        return stat.read_text().rpartition(")")[2].split()[0] not in "TtDZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@functools.cache
def unavailable() -> str | None:
    """Return why power cannot be cut here; None when it can.

    It tries once, on a small image.
    """
    if os.geteuid() != 0:
        return "power cuts need root (loop mounts and EXT4_IOC_SHUTDOWN)"
    for tool in ("mkfs.ext4", "mount", "umount"):
        if _tool(tool) is None:
            return f"power cuts need {tool} (apt-get install e2fsprogs mount)"
    try:
        with (
            tempfile.TemporaryDirectory(prefix="power-cut-probe-") as directory,
            Ext4Image(Path(directory), size_mb=16) as disk,
        ):
            disk.cut()
            disk.remount()
    except (OSError, subprocess.CalledProcessError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip()[-200:]
        return f"power cuts do not work here: {said}"
    return None


def _tool(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
