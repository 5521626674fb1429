"""Settings of spans and metrics: one switch of ours, and OpenTelemetry's own variables.

This module checks the variables that decide whether a server can start. The libraries of
OpenTelemetry read the others themselves, such as OTEL_TRACES_SAMPLER.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from edge.environment import Bounds, Reader, boolean

SWITCH = "PACKETBOAT_OPENTELEMETRY"
NEEDED = "opentelemetry.exporter.otlp.proto.http"
"""A module that only the extra `opentelemetry` installs."""
NOT_INSTALLED = (
    "the extra `opentelemetry` is not installed: run `make opentelemetry` in the checkout of "
    "Packetboat, or `python3 deploy/install.py FOLDER --opentelemetry`, then start again"
)
METRICS_EVERY_MS = 60_000
ENDPOINTS = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
)
PROTOCOLS = (
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
)
_OTHERS = (
    *("OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER"),
    "OTEL_METRIC_EXPORT_INTERVAL",
)
_URL = re.compile(r"https?://[^\s/?#@]+(/[^\s?#]*)?")


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """The signals that a server sends to a collector; by default none."""

    traces: bool = False
    metrics: bool = False
    metrics_every_s: float = METRICS_EVERY_MS / 1000

    @property
    def on(self) -> bool:
        return self.traces or self.metrics


def load(environment: Mapping[str, str] = os.environ) -> TelemetrySettings:
    """Raises SettingsError with a line for each wrong variable."""
    ours = Reader(environment)
    on = ours.read(SWITCH, boolean, False)
    ours.done()
    # OpenTelemetry's specification: an empty variable is one that is not set.
    names = (*ENDPOINTS, *PROTOCOLS, *_OTHERS)
    theirs = {name: text for name in names if (text := environment.get(name))}
    if not on or theirs.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return TelemetrySettings()
    reader = Reader(theirs)
    if not installed():
        reader.faults.append(f"{SWITCH}={environment[SWITCH]!r}: {NOT_INSTALLED}")
    for name in PROTOCOLS:
        reader.read(name, _protocol, "")
    for name in ENDPOINTS:
        reader.read(name, _url, "")
    every_ms = reader.number("OTEL_METRIC_EXPORT_INTERVAL", METRICS_EVERY_MS, Bounds(100))
    settings = TelemetrySettings(
        reader.read("OTEL_TRACES_EXPORTER", _exporter, True),
        reader.read("OTEL_METRICS_EXPORTER", _exporter, True),
        every_ms / 1000,
    )
    reader.done()
    return settings


def installed() -> bool:
    """Return whether the extra `opentelemetry` is installed."""
    try:
        return find_spec(NEEDED) is not None
    except ModuleNotFoundError:
        return False


def _exporter(text: str) -> bool:
    if text not in ("otlp", "none"):
        raise ValueError("otlp or none")
    return text == "otlp"


def _protocol(text: str) -> str:
    if text != "http/protobuf":
        raise ValueError("http/protobuf is the only protocol of OTLP that is spoken here")
    return text


def _url(text: str) -> str:
    if not _URL.fullmatch(text):
        raise ValueError("a URL, as in http://collector:4318")
    return text
