"""The directory in which backups are kept.

    lock                          held while a backup is taken, or old ones are removed
    <name>/manifest.json          makes it a backup: what it consists of, with digests; written last
    <name>/postgres/<table>.zst   rows, as COPY has them
    <name>/group-<n>              the machine of a group of the store
    <name>/pack-<n>, index-<n>    batches that no earlier backup had, and what they are
    <name>.partial/               one that is being taken, or was cut

Names are times, so they are in order. Files are written once, synced, and never changed: a copy of
the directory elsewhere needs only what is new. A backup refers to packs of earlier ones, which stay
for as long as one that refers to them does.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import IO

import msgspec
import zstandard

from metadata.postgres.dump import Dump
from metadata.postgres.embedded import sync_directory
from store_nodes.backup.packs import Pack

VERSION = 1
MANIFEST = "manifest.json"
PARTIAL = ".partial"
NAME_FORMAT = "%Y%m%dT%H%M%S.%fZ"
_CHUNK_BYTES = 1024 * 1024
_DIGEST_BYTES = 32


class BackupDirectoryError(Exception):
    """The directory, or a backup in it, is not what it must be; the text says what is wrong."""


class StoredFile(msgspec.Struct, frozen=True):
    """A file: its path in the backup directory, its length and the blake2b-256 of its
    bytes, in hex.
    """

    path: str
    bytes: int
    digest: str


class StoredPack(msgspec.Struct, frozen=True):
    """Batches and their index; perhaps in the directory of an earlier backup."""

    batches: StoredFile
    index: StoredFile


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One backup. Times are seconds since 1970. `recovery_point`: what was acknowledged before is
    in it. `digest` is of the JSON of the same object with `digest` empty."""

    version: int = VERSION
    release: str
    began: float
    recovery_point: float
    finished: float
    cluster_uid: str
    store_era: int
    store_groups: int
    messages: int
    new_bytes: int
    database: Dump
    tables: dict[str, StoredFile]
    machines: dict[int, StoredFile]
    packs: tuple[StoredPack, ...]
    digest: str = ""

    def files(self) -> list[StoredFile]:
        packs = [file for pack in self.packs for file in (pack.batches, pack.index)]
        return [*self.tables.values(), *self.machines.values(), *packs]

    @property
    def stored_bytes(self) -> int:
        """Bytes of all files of the backup, also of those in the directories of earlier backups."""
        return sum(file.bytes for file in self.files())

    def sealed(self) -> Manifest:
        """Return the manifest with its digest."""
        bare = msgspec.structs.replace(self, digest="")
        digest = blake2b(msgspec.json.encode(bare), digest_size=_DIGEST_BYTES).hexdigest()
        return msgspec.structs.replace(bare, digest=digest)


class NewFile:
    """A file of a backup that is being taken: counted and digested as it is written."""

    def __init__(self, path: Path, name: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("xb")
        self._name = name
        self._bytes = 0
        self._digest = blake2b(digest_size=_DIGEST_BYTES)

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._bytes += len(data)
        self._digest.update(data)

    def close(self) -> None:
        """Close the file; its content is durable when this returns, its name is not."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    @property
    def stored(self) -> StoredFile:
        return StoredFile(self._name, self._bytes, self._digest.hexdigest())


class Draft:
    """A backup that is being taken."""

    def __init__(self, backups: Path, name: str) -> None:
        self.name = name
        self._final = backups / name
        self._path = backups / (name + PARTIAL)
        self._path.mkdir()

    def file(self, name: str) -> NewFile:
        """Add a file at its path in the backup."""
        return NewFile(self._path / name, f"{self.name}/{name}")

    def finish(self, manifest: Manifest) -> None:
        """Write the manifest; the draft is a backup once this returns."""
        file = NewFile(self._path / MANIFEST, MANIFEST)
        file.write(msgspec.json.format(msgspec.json.encode(manifest.sealed())))
        file.close()
        for directory, _, _ in os.walk(self._path):
            sync_directory(Path(directory))
        self._path.rename(self._final)
        sync_directory(self._final.parent)


class BackupDirectory:
    """One directory of backups."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def names(self) -> list[str]:
        """Return the names of all whole backups, the oldest first."""
        if not self.path.is_dir():
            return []
        return sorted(
            entry.name
            for entry in self.path.iterdir()
            if not entry.name.endswith(PARTIAL) and (entry / MANIFEST).is_file()
        )

    def manifest(self, name: str | None = None) -> tuple[str, Manifest]:
        """Return the name and manifest of the newest backup, or of the one named; raises
        BackupDirectoryError.
        """
        names = self.names()
        if not names:
            raise BackupDirectoryError(f"there is no backup in {self.path}")
        chosen = names[-1] if name is None else name
        if chosen not in names:
            raise BackupDirectoryError(
                f"there is no backup {chosen} in {self.path}; the newest: {names[-1]}"
            )
        raw = (self.path / chosen / MANIFEST).read_bytes()
        try:
            found = msgspec.json.decode(raw, type=Manifest)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BackupDirectoryError(f"the manifest of {chosen} is damaged: {error}") from error
        if found.version != VERSION:
            raise BackupDirectoryError(f"{chosen} was made by another version ({found.version})")
        if found.sealed().digest != found.digest:
            raise BackupDirectoryError(f"the manifest of {chosen} is damaged")
        return chosen, found

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Lock the directory, made if it is missing, against other writers; raises
        BackupDirectoryError.
        """
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(self.path / "lock", "a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BackupDirectoryError(
                    f"another backup is being taken into {self.path}"
                ) from None
            yield

    def draft(self, began: float) -> Draft:
        """Return a new draft, and remove the drafts of interrupted backups.

        Call only while `writing`.
        """
        for entry in self.path.glob("*" + PARTIAL):
            shutil.rmtree(entry)
        return Draft(self.path, datetime.fromtimestamp(began, UTC).strftime(NAME_FORMAT))

    def keep(self, count: int) -> list[str]:
        """Remove all but the newest `count` backups; return the removed names.

        Call only while `writing`.
        """
        names = self.names()
        removed = names[: max(0, len(names) - count)]
        wanted = {
            file.path for name in names[len(removed) :] for file in self.manifest(name)[1].files()
        }
        for name in removed:
            # First what makes it one.
            (self.path / name / MANIFEST).unlink()
        for entry in self.path.iterdir():
            if entry.is_dir() and not (entry / MANIFEST).exists():
                _thin(self.path, entry, wanted)
        return removed

    def check(self, files: list[StoredFile]) -> None:
        """Read them; raises BackupDirectoryError naming the first that is not as it was written."""
        for file in files:
            digest, length = blake2b(digest_size=_DIGEST_BYTES), 0
            try:
                with open(self.path / file.path, "rb") as opened:
                    while chunk := opened.read(_CHUNK_BYTES):
                        digest.update(chunk)
                        length += len(chunk)
            except OSError as error:
                raise BackupDirectoryError(f"{file.path}: {error.strerror}") from error
            if (length, digest.hexdigest()) != (file.bytes, file.digest):
                raise BackupDirectoryError(f"{file.path} is damaged")

    def read(self, file: StoredFile) -> bytes:
        """Return the whole file, checked; raises BackupDirectoryError."""
        self.check([file])
        return (self.path / file.path).read_bytes()

    def pack(self, stored: StoredPack) -> Pack:
        """Return the pack with the paths of its files."""
        return Pack(self.path / stored.batches.path, self.path / stored.index.path)

    @contextlib.contextmanager
    def open_table(self, file: StoredFile) -> Iterator[IO[bytes]]:
        """Open a table's file, which holds its rows as they were written."""
        with (
            open(self.path / file.path, "rb") as raw,
            zstandard.ZstdDecompressor().stream_reader(raw) as rows,
        ):
            yield rows


def _thin(backups: Path, directory: Path, wanted: set[str]) -> None:
    """Remove what is in it and no backup refers to, and itself if nothing is left."""
    for path in sorted(directory.rglob("*"), reverse=True):
        if path.is_dir():
            if not any(path.iterdir()):
                path.rmdir()
        elif str(path.relative_to(backups)) not in wanted:
            path.unlink()
    if not any(directory.iterdir()):
        directory.rmdir()
