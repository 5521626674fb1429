"""A disk of its own for each store node, whose power can be cut."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from harness.cluster import NODES
from harness.power_cut import Ext4Image

IMAGE_MB = 2048
"""Sparse: it takes what is written."""


class NodeDisks:
    """One ext4 image per store node, where `power_cut.unavailable` is None; leaving the context
    unmounts and removes them."""

    def __init__(self, root: Path, *, size_mb: int = IMAGE_MB) -> None:
        self._images = {node: Ext4Image(root / f"disk-{node}", size_mb) for node in NODES}
        self.directories = {
            node: image.mount_point / "node" for node, image in self._images.items()
        }

    def cut(self, nodes: Iterable[int] = NODES) -> None:
        """Pull the plug of these in one step: microseconds apart."""
        for node in nodes:
            self._images[node].cut()

    def remount(self, nodes: Iterable[int] = NODES) -> None:
        """After a cut, once their node processes are gone."""
        for node in nodes:
            self._images[node].remount()

    def __enter__(self) -> NodeDisks:
        try:
            for image in self._images.values():
                image.make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for image in self._images.values():
            image.remove()
