"""The files that the snapshots of a table name."""

from __future__ import annotations

from collections.abc import Iterator

from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table


def manifests(table: Table) -> Iterator[ManifestFile]:
    """Yield the manifests of all snapshots, each once."""
    seen = set()
    for snapshot in table.snapshots():
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                yield manifest


def data_locations(table: Table) -> set[str]:
    """Return all data files of all snapshots."""
    return {
        entry.data_file.file_path
        for manifest in manifests(table)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    }


def metadata_locations(table: Table) -> set[str]:
    """Return all other files that the table needs."""
    metadata = table.metadata
    return {
        table.metadata_location,
        *(entry.metadata_file for entry in metadata.metadata_log),
        *(snapshot.manifest_list for snapshot in metadata.snapshots),
        *(statistics.statistics_path for statistics in metadata.statistics),
        *(statistics.statistics_path for statistics in metadata.partition_statistics),
        *(manifest.manifest_path for manifest in manifests(table)),
    }
