"""Rows of attached segments, read from their sidecars through a bounded cache.

Memory holds one `Run` for each attached segment; its rows are read a page at a time. A sidecar that
is missing, or has a page that does not verify, is rebuilt from the segment's footer; if that does
not verify either, WalDamaged is raised. Any thread may call.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator

import structlog

from store_nodes.storage import sidecar
from store_nodes.storage.rows import Row
from store_nodes.storage.sidecar import EXTRA, INSTANCE, NO_EXTRA, PAGE_ROWS, ROW, Run, Tables
from store_nodes.wal.errors import WalDamaged
from store_nodes.wal.log import WriteAheadLog
from store_nodes.wal.position import Position
from store_nodes.wal.recovery import Damage
from store_nodes.wal.segment import INDEX_SUFFIX, SEGMENT_HEADER_BYTES, path_of

DEFAULT_CACHE_BYTES = 32 * 1024 * 1024
_ENTRY_BYTES = 200
"""Bytes of memory that a cached page costs besides its own."""
_ROWS, _INSTANCES, _EXTRAS = range(3)

log = structlog.get_logger()


class Pages:
    """The sidecars of one log."""

    def __init__(self, wal: WriteAheadLog, cache_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self._wal = wal
        self._limit_bytes = cache_bytes
        self._runs: dict[int, Run] = {}
        self._cache: OrderedDict[tuple[int, int, int], bytes] = OrderedDict()
        self._lock = threading.Lock()
        self.cached_bytes = 0
        self.rebuilt = 0
        """Number of sidecars rebuilt since the start."""

    def attach(self, segment: int) -> Tables:
        """Return the tables of a segment, whose rows can be read from now on. Raises WalDamaged."""
        seed = self._seed(segment)
        tables = self._load(segment, seed)
        if tables is None:
            self._build(segment, seed)
            tables = self._load(segment, seed)
            assert tables is not None, "a sidecar that was just written reads back"
        self._runs[segment] = tables.run
        return tables

    def detach(self, segment: int) -> None:
        """Forget a segment whose rows are not read again."""
        self._runs.pop(segment, None)
        with self._lock:
            for key in [key for key in self._cache if key[0] == segment]:
                self.cached_bytes -= len(self._cache.pop(key)) + _ENTRY_BYTES

    def run(self, segment: int) -> Run:
        return self._runs[segment]

    def runs(self) -> list[Run]:
        return list(self._runs.values())

    def rows(self, segment: int, start: int, stop: int, *, keep: bool = True) -> Iterator[Row]:
        """Yield the rows [start, stop) of a segment's index; raises WalDamaged.

        Without `keep`, for a caller that reads them all once, they displace nothing in the cache.
        """
        run = self._runs[segment]
        while start < stop:
            page, first = divmod(start, PAGE_ROWS)
            raw = self._page(run, _ROWS, page, keep)
            upto = min(stop - page * PAGE_ROWS, PAGE_ROWS)
            with memoryview(raw) as view:
                found = list(ROW.iter_unpack(view[first * ROW.size : upto * ROW.size]))
            for base, time_us, messages, target, offset, length, extra_at in found:
                extra = b"" if extra_at == NO_EXTRA else self._extra(run, extra_at)
                yield Row(base, messages, time_us, Position(target, offset, length), extra)
            start = page * PAGE_ROWS + upto

    def find(self, segment: int, start: int, stop: int, number: int) -> int:
        """Return the first of rows [start, stop), ascending, that ends above `number`."""
        run = self._runs[segment]
        while start < stop:
            middle = (start + stop) // 2
            page, index = divmod(middle, PAGE_ROWS)
            row = ROW.unpack_from(self._page(run, _ROWS, page), index * ROW.size)
            if row[0] + row[2] > number:
                stop = middle
            else:
                start = middle + 1
        return start

    def find_time(self, segment: int, start: int, stop: int, time_us: int) -> int:
        """Return the first of rows [start, stop) that is not older."""
        run = self._runs[segment]
        while start < stop:
            middle = (start + stop) // 2
            page, index = divmod(middle, PAGE_ROWS)
            if ROW.unpack_from(self._page(run, _ROWS, page), index * ROW.size)[1] >= time_us:
                stop = middle
            else:
                start = middle + 1
        return start

    def instance(self, segment: int, start: int, stop: int, instance: int) -> Position | None:
        """Return the place of an instance's record, from rows [start, stop) of the instances."""
        run = self._runs[segment]
        while start < stop:
            middle = (start + stop) // 2
            page, index = divmod(middle, PAGE_ROWS)
            raw = self._page(run, _INSTANCES, page)
            found, offset, length = INSTANCE.unpack_from(raw, index * INSTANCE.size)
            if found == instance:
                return Position(segment, offset, length)
            if found > instance:
                stop = middle
            else:
                start = middle + 1
        return None

    # -- inside --------------------------------------------------------------------------------

    def _page(self, run: Run, kind: int, page: int, keep: bool = True) -> bytes:
        key = (run.segment, kind, page)
        with self._lock:
            if (raw := self._cache.get(key)) is not None:
                self._cache.move_to_end(key)
                return raw
        row_bytes, rows, at = (
            (ROW.size, run.rows, run.rows_at)
            if kind == _ROWS
            else (INSTANCE.size, run.instances, run.instances_at)
        )
        assert page * PAGE_ROWS < rows
        size = min(PAGE_ROWS, rows - page * PAGE_ROWS) * row_bytes + sidecar.CRC_BYTES
        at += page * sidecar.page_span(row_bytes)
        raw = self._verified(run, at, size, sidecar.page_holds)
        return self._remember(key, raw) if keep else raw

    def _extra(self, run: Run, at: int) -> bytes:
        key = (run.segment, _EXTRAS, at)
        with self._lock:
            if (raw := self._cache.get(key)) is not None:
                self._cache.move_to_end(key)
                return raw
        where = run.extras_at + at
        head = self._read(run.segment, where, EXTRA.size)
        length = EXTRA.unpack(head)[0] if len(head) == EXTRA.size else 0
        raw = self._verified(run, where, EXTRA.size + length, sidecar.extra_holds)
        return self._remember(key, raw[EXTRA.size :])

    def _verified(self, run: Run, at: int, size: int, holds: sidecar.Holds) -> bytes:
        raw = self._read(run.segment, at, size)
        if len(raw) == size and holds(raw):
            return raw
        log.warning("an index does not verify and is made anew", segment=run.segment)
        self._build(run.segment, run.seed)
        if holds is sidecar.extra_holds:
            size = EXTRA.size + EXTRA.unpack(self._read(run.segment, at, EXTRA.size))[0]
        raw = self._read(run.segment, at, size)
        if len(raw) == size and holds(raw):
            return raw
        raise WalDamaged(Damage(run.segment, 0, 0, "index"))

    def _remember(self, key: tuple[int, int, int], raw: bytes) -> bytes:
        with self._lock:
            if key not in self._cache:
                self._cache[key] = raw
                self.cached_bytes += len(raw) + _ENTRY_BYTES
                while self.cached_bytes > self._limit_bytes and len(self._cache) > 1:
                    _, old = self._cache.popitem(last=False)
                    self.cached_bytes -= len(old) + _ENTRY_BYTES
        return raw

    def _seed(self, segment: int) -> int:
        try:
            seed = self._wal.reader(segment).seed
        except FileNotFoundError:
            raise WalDamaged(Damage(segment, 0, 0, "missing")) from None
        if seed is None:
            raise WalDamaged(Damage(segment, 0, SEGMENT_HEADER_BYTES, "segment header"))
        return seed

    def _load(self, segment: int, seed: int) -> Tables | None:
        head = self._read(segment, 0, sidecar.HEAD_BYTES)
        size = sidecar.head_of(head, segment, seed)
        if size is None:
            return None
        raw = self._read(segment, 0, size)
        return sidecar.tables_of(raw) if len(raw) == size else None

    def _build(self, segment: int, seed: int) -> None:
        """Rebuild a sidecar; raises WalDamaged when there is no footer to rebuild it from."""
        raw = sidecar.build(self._wal.footer(segment), seed)
        path = path_of(self._wal.directory, segment, INDEX_SUFFIX)
        disk = self._wal.disk
        if path.name in disk.names(self._wal.directory):
            disk.remove(path)
        fd = disk.open(path, create=True)
        try:
            disk.write(fd, [raw], 0)
        finally:
            disk.close(fd)
        self.rebuilt += 1

    def _read(self, segment: int, at: int, size: int) -> bytes:
        """Return up to `size` bytes of the sidecar; none if it does not exist."""
        disk = self._wal.disk
        try:
            fd = disk.open(path_of(self._wal.directory, segment, INDEX_SUFFIX))
        except FileNotFoundError:
            return b""
        try:
            return disk.read(fd, size, at)
        finally:
            disk.close(fd)
