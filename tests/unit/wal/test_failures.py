"""The first failed call to the disk is final."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import pytest

from store_nodes.wal.disk import OsDisk
from store_nodes.wal.errors import WalClosed
from tests.unit.wal.wal_support import SimDisk, accept, append, content, open_log


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("call", ["write", "sync_data"])
def test_a_failed_flush_is_final(call: str, code: int) -> None:
    disk = SimDisk()
    log, _ = open_log(disk)
    append(log, accept(1))
    disk.failing[call] = code
    with pytest.raises(OSError, match=call):
        append(log, accept(2))
    disk.failing.clear()
    calls = len(disk.calls)
    for again in (log.sync, log.mark, log.prepare_spare, lambda: log.write([accept(3)])):
        with pytest.raises(WalClosed):
            again()
    log.close()
    assert len(disk.calls) == calls, "nothing is written or synced after a failure"
    disk.cut()
    assert content(open_log(disk)[1])[:1] == [accept(1)]


@pytest.mark.parametrize(
    "call", ["write", "truncate", "sync", "close", "rename", "sync_directory", "allocate", "create"]
)
def test_a_failed_roll_is_final(call: str) -> None:
    disk = SimDisk()
    log, _ = open_log(disk)
    written = []
    disk.failing[call] = errno.EIO
    if call == "write":
        disk.failing.clear()
    raised = False
    for i in range(100):
        if call == "write" and i == 20:
            disk.failing[call] = errno.EIO
        try:
            append(log, accept(i, b"x" * 1000))
            written.append(accept(i, b"x" * 1000))
            if log.tail.segment > 1:
                log.prepare_spare()
        except OSError:
            raised = True
            break
    assert raised
    with pytest.raises(WalClosed):
        log.write([accept(1)])
    disk.cut()
    log, recovery = open_log(disk)
    assert content(recovery)[: len(written)] == written


@pytest.mark.parametrize("call", ["sync", "sync_directory", "allocate", "truncate"])
def test_a_start_that_fails_lets_the_lock_go(call: str) -> None:
    disk = SimDisk()
    log, _ = open_log(disk)
    append(log, accept(1))
    disk.kill()
    disk.damage("0000000000000001.wal", log.tail.offset, b"torn")
    disk.remove(log.directory / "0000000000000002.spare")
    disk.failing[call] = errno.EIO
    with pytest.raises(OSError, match=call):
        open_log(disk)
    disk.failing.clear()
    assert content(open_log(disk)[1]) == [accept(1)]


def test_a_failed_close_is_told() -> None:
    disk = SimDisk()
    log, _ = open_log(disk)
    disk.failing["close"] = errno.EIO
    with pytest.raises(OSError, match="close"):
        log.close()


def short_pwritev(limit: int) -> Callable[[int, list[bytes], int], int]:
    def pwritev(fd: int, buffers: list[bytes], offset: int) -> int:
        return os.pwrite(fd, b"".join(buffers)[:limit], offset)

    return pwritev


def test_a_short_write_goes_on(tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pwritev", short_pwritev(10))
    disk = OsDisk()
    path = os.path.join(tmp_path, "file")
    fd = os.open(path, os.O_CREAT | os.O_RDWR)
    disk.write(fd, [b"0123456", b"789abcdef"], 3)
    disk.close(fd)
    with open(path, "rb") as file:
        assert file.read() == bytes(3) + b"0123456789abcdef"
