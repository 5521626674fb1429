"""The recorder of spans and metrics of a server process, where an operator switched it on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from edge.tracing import Tracer
from gateway.telemetry import settings as telemetry_settings


@asynccontextmanager
async def open_telemetry(role: str) -> AsyncIterator[Tracer | None]:
    """Yield a tracer that starts spans, or None. The last spans are sent at the end, or dropped."""
    settings = telemetry_settings.load()
    if not settings.on:
        yield None
        return
    # Imported where it is wanted: it is an extra, and its libraries take 7 MB of memory.
    from gateway.telemetry.otlp import Exporter

    exporter = Exporter(settings, role)
    try:
        yield exporter.tracer
    finally:
        await exporter.close()
