# Generated from aio/resources/pools.py: `make generate`. Do not edit.
"""Pools: how many tasks of a kind of work run at once, over all workers."""

from __future__ import annotations

from collections.abc import Iterator

from packetboat.calls import jobs as calls
from packetboat.models.jobs import Pool
from packetboat.models.page import Page
from packetboat.sync.resources.pages import every
from packetboat.sync.sender import Sender


class Pools:
    """Pools: how many tasks of a kind of work run at once, over all workers. One that nobody made
    has no limit."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def put(self, name: str, *, max_running: int | None, timeout_s: float | None = None) -> Pool:
        """Makes or changes it; None is no limit."""
        return self._sender.send(calls.put_pool(name, max_running), timeout_s)

    def get(self, name: str, *, timeout_s: float | None = None) -> Pool:
        """With how many of its tasks run and wait."""
        return self._sender.send(calls.get_pool(name), timeout_s)

    def list(self, *, page_size: int = 100, timeout_s: float | None = None) -> Iterator[Pool]:
        """All that were made or have tasks, page by page."""
        return every(self._sender, lambda token: calls.list_pools(page_size, token), timeout_s)

    def page(
        self, *, page_size: int = 100, page_token: str | None = None, timeout_s: float | None = None
    ) -> Page[Pool]:
        """One page; `page_token` is that of the page before."""
        return self._sender.send(calls.list_pools(page_size, page_token), timeout_s)

    def delete(self, name: str, *, timeout_s: float | None = None) -> None:
        """Its limit goes; its tasks stay."""
        self._sender.send(calls.delete_pool(name), timeout_s)
