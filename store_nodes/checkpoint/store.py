"""Writes and loads checkpoints so that a power cut at any instant leaves a whole one.

A checkpoint becomes *the* checkpoint in this order, each step durable before the next:

1. its file is written under a new name and fsynced;
2. the directory is fsynced, so the name is there;
3. a manifest with the file's digest is written to a temporary file, fsynced, and renamed over the
   older of the two manifests;
4. the directory is fsynced, so the rename is there;
5. checkpoint files that neither manifest names are removed. They may come back after a power cut,
   when nothing refers to them.

The other manifest and its checkpoint stay, so that one damaged file makes a start longer but does
not cost the node. The log must therefore be kept from `oldest_start` on. A failed write, fsync or
rename raises OSError: the node then exits and sends nothing more (it is not known what is on the
disk).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from store_nodes.checkpoint.files import Files
from store_nodes.checkpoint.format import (
    HEAD_BYTES,
    BodyWriter,
    Checkpoint,
    CheckpointDamaged,
    GroupCheckpoint,
    Manifest,
    Rest,
    decode_checkpoint,
    decode_manifest,
    encode_manifest,
    rest_of,
)

MANIFESTS = ("manifest-a", "manifest-b")
"""The names of the manifests; checkpoint `number` is in manifest `number % 2`."""
_ASIDE = "manifest.tmp"
_PREFIX = "checkpoint-"


@dataclass(frozen=True, slots=True)
class Loaded:
    """The checkpoint to start from; `skipped` describes the other files that were found damaged."""

    number: int
    checkpoint: Checkpoint
    skipped: tuple[str, ...] = ()


class CheckpointStore:
    """The checkpoints of one node, in a directory of their own; one is written at a time."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._number = 0
        self._starts: dict[int, tuple[int, int]] = {}

    def load(self) -> Loaded | None:
        """Return the newest whole checkpoint, None if none was ever completed.

        Raises CheckpointDamaged if one was completed but none can be trusted.
        """
        skipped: list[str] = []
        manifests: list[Manifest] = []
        for slot, name in enumerate(MANIFESTS):
            raw = self._files.read(name)
            if raw is None:
                continue
            try:
                manifest = decode_manifest(raw)
            except CheckpointDamaged as error:
                skipped.append(f"{name}: {error}")
                continue
            if manifest.number % len(MANIFESTS) != slot:
                skipped.append(f"{name}: number {manifest.number} is not of this slot")
                continue
            manifests.append(manifest)
        manifests.sort(key=lambda manifest: manifest.number, reverse=True)
        found: tuple[int, Checkpoint] | None = None
        for manifest in manifests:
            try:
                checkpoint = self._read(manifest)
            except CheckpointDamaged as error:
                skipped.append(f"{file_name(manifest.number)}: {error}")
                continue
            self._starts[manifest.number] = (checkpoint.wal_segment, checkpoint.wal_offset)
            if found is None:
                found = (manifest.number, checkpoint)
        if found is None and skipped:
            raise CheckpointDamaged("; ".join(skipped))
        self._number = manifests[0].number if manifests else 0
        return Loaded(*found, tuple(skipped)) if found is not None else None

    def write(self, checkpoint: Checkpoint) -> int:
        """Write a checkpoint that counts from then on; return its number.

        Blocks; any OSError is fatal.
        """
        groups = checkpoint.groups
        body = BodyWriter(others=bool(checkpoint.tail_of_others))
        return self._write(body, body.parts(len(groups), groups, lambda: rest_of(checkpoint)))

    def write_groups(
        self, count: int, groups: Iterable[GroupCheckpoint], rest: Callable[[], Rest]
    ) -> int:
        """Write a checkpoint with one group in memory at a time; `rest` is called after the
        last.
        """
        body = BodyWriter()
        return self._write(body, body.parts(count, groups, rest))

    def _write(self, body: BodyWriter, parts: Iterable[bytes]) -> int:
        number = self._number + 1
        length, digest = self._files.write_parts_synced(
            file_name(number), HEAD_BYTES, parts, body.head
        )
        written = body.rest
        start = (written.wal_segment, written.wal_offset)
        # A start at (0, 0) reads the whole log that exists; the log keeps the records that are
        # needed.
        assert not any(start) or self.oldest_start is None or start >= self.oldest_start, (
            f"a start at {start} needs a log that is kept from {self.oldest_start} on"
        )
        manifest = Manifest(number, length, digest)
        self._files.sync_directory()
        if _ASIDE in self._files.names():
            # A power cut left it, perhaps as a second name of a manifest that is in use.
            self._files.remove(_ASIDE)
        self._files.write_synced(_ASIDE, encode_manifest(manifest))
        self._files.rename(_ASIDE, MANIFESTS[number % len(MANIFESTS)])
        self._files.sync_directory()
        self._number = number
        self._starts[number] = start
        self._remove_unnamed()
        return number

    @property
    def oldest_start(self) -> tuple[int, int] | None:
        """The (segment, offset) from which the log is still needed.

        It is None while there is no checkpoint, because the whole log is needed then.
        """
        return min(self._starts.values()) if self._starts else None

    def _read(self, manifest: Manifest) -> Checkpoint:
        file = self._files.view(file_name(manifest.number))
        if file is None:
            raise CheckpointDamaged("file is missing")
        if not manifest.matches(file):
            raise CheckpointDamaged("file does not match its manifest")
        return decode_checkpoint(file)

    def _remove_unnamed(self) -> None:
        """Keep the newest two checkpoints, which the manifests name."""
        named = {self._number, self._number - 1}
        keep = {file_name(number) for number in named}
        for name in self._files.names():
            if name == _ASIDE or (name.startswith(_PREFIX) and name not in keep):
                self._files.remove(name)
        self._starts = {n: start for n, start in self._starts.items() if n in named}


def file_name(number: int) -> str:
    return f"{_PREFIX}{number:016x}"
