"""All settings of a process: each part has a class that reads its own, and the faults of all of
them are reported together, before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edge.environment import SettingsError, all_faults
from gateway.configuration.settings import ServerSettings
from gateway.quotas import settings as quotas
from gateway.telemetry import settings as telemetry
from metadata.settings import DatabaseSettings
from peering.settings import PeerSettings
from publish_forwarder import settings as publishing
from scheduler import settings as scheduling
from subscribe_forwarder import settings as subscribing

_PARTS = (
    DatabaseSettings.from_environment,
    PeerSettings.from_environment,
    publishing.load,
    subscribing.load,
    scheduling.load,
    quotas.load,
    telemetry.load,
)


def of_server(environment: Mapping[str, str], **given: Any) -> ServerSettings:
    """Read the settings of a server; `given` is from the command line.

    Raises SettingsError, with the faults of all parts.
    """
    faults = all_faults(
        [
            lambda: ServerSettings.from_environment(environment, **given),
            *(lambda read=read: read(environment) for read in _PARTS),
        ]
    )
    if faults:
        raise SettingsError(*faults)
    return ServerSettings.from_environment(environment, **given)
