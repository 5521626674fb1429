"""A disk of its own for each store node, whose power can be cut."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.chaos.cluster import NODES
from tests.chaos.power_cut import Ext4Image, NoPowerCuts, cut_all, why_not

IMAGE_BYTES = 2 * 1024 * 1024 * 1024
"""Sparse: it takes what is written."""


class NodeDisks:
    """One ext4 image per store node; leaving the context unmounts and removes them."""

    def __init__(self, root: Path) -> None:
        self._images = {
            node: Ext4Image(
                root / f"disk-{node}.img", root / f"disk-{node}", size_bytes=IMAGE_BYTES
            )
            for node in NODES
        }
        self.directories = {node: root / f"disk-{node}" / "node" for node in NODES}

    def cut(self, nodes: Iterable[int] = NODES) -> None:
        """Pull the plug of these in one step."""
        cut_all([self._images[node] for node in nodes])

    def remount(self, nodes: Iterable[int] = NODES) -> None:
        """After a cut, once their node processes are gone."""
        for node in nodes:
            self._images[node].remount()

    def __enter__(self) -> NodeDisks:
        reason = why_not()
        if reason is not None:
            raise NoPowerCuts(reason)
        try:
            for image in self._images.values():
                image.make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for image in self._images.values():
            image.close()
