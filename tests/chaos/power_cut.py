"""A file system of its own that loses its power when asked: ext4 on a loop device.

EXT4_IOC_SHUTDOWN ends the file system between two instructions: nothing more reaches the image,
neither data nor journal, as when the plug is pulled. What was fdatasync'ed is there after the next
mount, which replays the journal; what was not may be there or not.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

_EXT4_IOC_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = struct.pack("I", 2)
UNMOUNT_TIMEOUT_S = 10.0


class NoPowerCuts(Exception):
    """This machine cannot do it; the text says why."""


class Ext4Image:
    """A file of `size_bytes` with ext4 in it, mounted at `mountpoint`."""

    def __init__(self, image: Path, mountpoint: Path, *, size_bytes: int) -> None:
        self.image = image
        self.mountpoint = mountpoint
        self._size_bytes = size_bytes
        self._mounted = False

    def make(self) -> None:
        """A new file system, mounted. Raises NoPowerCuts."""
        mkfs = shutil.which("mkfs.ext4", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        if mkfs is None:
            raise NoPowerCuts("mkfs.ext4 is not installed (apt-get install e2fsprogs)")
        if os.geteuid() != 0:
            raise NoPowerCuts("mounting a disk image needs root")
        self.image.parent.mkdir(parents=True, exist_ok=True)
        with self.image.open("wb") as file:
            file.truncate(self._size_bytes)
        _run([mkfs, "-q", "-F", str(self.image)])
        self.mountpoint.mkdir(parents=True, exist_ok=True)
        self.mount()

    def mount(self) -> None:
        """Mount it (again); the journal is replayed. Raises NoPowerCuts."""
        _run(["mount", "-o", "loop", str(self.image), str(self.mountpoint)])
        self._mounted = True

    def cut(self) -> None:
        """Pull the plug. Writes and syncs of whoever has files open fail from here on."""
        cut_all([self])

    def remount(self) -> None:
        """After a cut, once nobody has files open on it: what is left is there again."""
        self.unmount()
        self.mount()

    def unmount(self) -> None:
        """Waits a little for processes that were just killed to let go. Raises NoPowerCuts."""
        deadline = time.monotonic() + UNMOUNT_TIMEOUT_S
        while self._mounted:
            try:
                _run(["umount", str(self.mountpoint)])
                self._mounted = False
            except NoPowerCuts:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def close(self) -> None:
        """Unmount and forget; also lazily, when somebody still has files open."""
        try:
            self.unmount()
        except NoPowerCuts:
            subprocess.run(["umount", "-l", str(self.mountpoint)], check=False)
            self._mounted = False
        self.image.unlink(missing_ok=True)


def cut_all(images: Sequence[Ext4Image]) -> None:
    """Pull the plug of all of them in one step: microseconds apart."""
    directories = [os.open(image.mountpoint, os.O_RDONLY) for image in images]
    try:
        for directory in directories:
            fcntl.ioctl(directory, _EXT4_IOC_SHUTDOWN, _NO_LOG_FLUSH)
    finally:
        for directory in directories:
            os.close(directory)


@functools.cache
def why_not() -> str | None:
    """Why no power can be cut here, or None; tried once, on a small image."""
    home = Path(tempfile.mkdtemp(prefix="packetboat-power-"))
    image = Ext4Image(home / "image", home / "mount", size_bytes=16 * 1024 * 1024)
    try:
        image.make()
        image.cut()
        image.remount()
    except (NoPowerCuts, OSError) as reason:
        return str(reason)
    finally:
        with contextlib.suppress(OSError):
            image.close()
        shutil.rmtree(home, ignore_errors=True)
    return None


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoPowerCuts(f"{command[0]}: {(done.stderr or done.stdout).strip()[-200:]}")
