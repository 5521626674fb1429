"""The files of a lake, in local directories and S3, by PyIceberg's FileIO over pyarrow.

A commit moves positions, and the log may drop the messages below them. So the files that a commit
names must be on disk before it. PyArrow closes local files without fsync, hence the stream here.
Object stores answer when an object is durable.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import msgspec
from pyarrow.fs import FileSelector, FileType
from pyiceberg.io import OutputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from spark_exports.order import LakeSettings

FILE_IO = f"{__name__}.LakeFileIO"
"""The value of PyIceberg's property `py-io-impl`."""

_STORAGE_PREFIXES = ("s3.", "client.", "gcs.", "adls.", "hdfs.", "oss.")
_DELETERS = 8


class LakeFileIO(PyArrowFileIO):
    """PyArrow's FileIO, with local files that are durable once closed."""

    def new_output(self, location: str) -> PyArrowFile:
        scheme, netloc, path = self.parse_location(location, self.properties)
        if scheme != "file":
            return super().new_output(location)
        return _LocalFile(location=location, path=path, fs=self.fs_by_scheme(scheme, netloc))


class _LocalFile(PyArrowFile):
    def create(self, overwrite: bool = False) -> OutputStream:
        path = Path(self._path)
        _make_directory(path.parent)
        return _DurableStream(path, exclusive=not overwrite)


class _DurableStream(io.BufferedWriter):
    """A local file whose name and content are on disk when `close` returns."""

    def __init__(self, path: Path, *, exclusive: bool) -> None:
        super().__init__(io.FileIO(path, "xb" if exclusive else "wb"))
        self._directory = path.parent

    def close(self) -> None:
        if self.closed:
            return
        try:
            self.flush()
            os.fsync(self.fileno())
        finally:
            super().close()
        _sync_directory(self._directory)


def _make_directory(directory: Path) -> None:
    missing = []
    parent = directory
    while not parent.exists():
        missing.append(parent)
        parent = parent.parent
    directory.mkdir(parents=True, exist_ok=True)
    for made in reversed(missing):
        _sync_directory(made.parent)


def _sync_directory(directory: Path) -> None:
    number = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def write_whole(file_io: PyArrowFileIO, location: str, content: bytes) -> None:
    """Write a small file that readers see complete or not at all; it replaces an existing one."""
    scheme, _, path = file_io.parse_location(location, file_io.properties)
    if scheme != "file":
        with file_io.new_output(location).create(overwrite=True) as stream:
            stream.write(content)
        return
    with file_io.new_output(f"{location}.new").create(overwrite=True) as stream:
        stream.write(content)
    Path(f"{path}.new").replace(path)
    _sync_directory(Path(path).parent)


class StoredFile(msgspec.Struct, frozen=True):
    """A file by its location; `modified_s` is the time in the storage's metadata, of the epoch."""

    location: str
    size_bytes: int
    modified_s: float


def list_files(file_io: PyArrowFileIO, directory: str) -> Iterator[StoredFile]:
    """Yield all files below a location, which may not exist, with the location's own prefix."""
    scheme, netloc, path = file_io.parse_location(directory, file_io.properties)
    prefix = directory.removesuffix(path)
    found = file_io.fs_by_scheme(scheme, netloc).get_file_info(
        FileSelector(path, recursive=True, allow_not_found=True)
    )
    for each in found:
        if each.type == FileType.File:
            yield StoredFile(prefix + each.path, each.size, (each.mtime_ns or 0) / 1e9)


def delete_files(file_io: PyArrowFileIO, locations: Iterable[str]) -> int:
    """Delete files, and local directories that become empty; return how many of the files
    existed.
    """

    def delete(location: str) -> bool:
        try:
            file_io.delete(location)
        except FileNotFoundError:
            return False
        _delete_empty_directories(file_io, location)
        return True

    with ThreadPoolExecutor(_DELETERS, thread_name_prefix="lake-delete") as pool:
        return sum(pool.map(delete, locations))


def _delete_empty_directories(file_io: PyArrowFileIO, location: str) -> None:
    scheme, _, path = file_io.parse_location(location, file_io.properties)
    if scheme != "file":
        return
    with suppress(OSError):
        for directory in Path(path).parents[:2]:
            directory.rmdir()


def storage_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that workers need to reach files, without passwords of catalogs."""
    return {name: value for name, value in properties.items() if name.startswith(_STORAGE_PREFIXES)}


def table_location(settings: LakeSettings, tenant: str, table: str) -> str:
    """Return `<warehouse>/<tenant>/<table>`; a local warehouse is made absolute."""
    warehouse = settings.warehouse.rstrip("/")
    if "://" not in warehouse:
        warehouse = str(Path(warehouse).absolute())
    return f"{warehouse}/{tenant}/{table}"
