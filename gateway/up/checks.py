"""The checks that `packetboat up` makes before it starts anything: its own settings and its
processes'.

Each setting is declared once, in the class of the part that reads it. Here these classes are asked,
so that a wrong variable is told by its name and not by the end of some process's log. A variable
that none of them asks for is told too: it is a mistake, or of another version.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from edge.environment import Asked, SettingsError, all_faults
from gateway.addresses import CannotListen, bound
from gateway.configuration import every_setting
from gateway.configuration.settings import PREFIX, Role, UpSettings, cluster_uid
from metadata.settings import URL as DATABASE_URL
from peering.settings import PeerSettings
from store_nodes import settings as store_settings

SECRET = "00" * 16
ANY_CHILD = {
    "PACKETBOAT_HOST": "127.0.0.1",
    "PACKETBOAT_PORT": "1",
    "PACKETBOAT_STORE_NODES": "1=127.0.0.1:1",
    "PACKETBOAT_STORE_NODE_ID": "1",
    "PACKETBOAT_STORE_DIR": ".",
    "PACKETBOAT_CLUSTER_UID": SECRET,
    "PACKETBOAT_STORE_SECRET": SECRET,
    "PACKETBOAT_ACK_SECRET": SECRET,
    "PACKETBOAT_SEAL_KEYS": f"a:{SECRET}{SECRET}",
}
"""Settings that the supervisor itself makes for its processes, with any valid values."""
ANY_DATABASE = "postgresql://127.0.0.1/packetboat"
_OF_ONE_NODE = ("STORE_LISTEN", "STORE_JOIN", "STORE_METRICS_PORT")
_OTHER_PROGRAMS = re.compile(
    "PACKETBOAT_(URL|TOKEN|CLIENT_ID|CLIENT_SECRET|PROFILE|LOCK|LOCK_ID|FENCING_TOKEN|LAKES"
    "|EXPORT_FAIL_AT|(RUNNER|BENCH|TEST)_.*)"
)
"""Variables of clients, of runners of exports and of our tests: these programs read them."""
_OFF = ("", "0", "false")


def settings_of(environment: Mapping[str, str], **given: Any) -> UpSettings:
    """Raises SettingsError: a line for each setting that does not fit. Nothing was started."""
    asked = Asked(environment)
    faults = all_faults([lambda: UpSettings.from_environment(asked, **given)])
    faults += _of_children(environment, asked.names)
    faults += _unknown(environment, asked.names)
    if not faults:
        settings = UpSettings.from_environment(environment, **given)
        faults += _of_machine(settings, environment)
    if faults:
        raise SettingsError(*dict.fromkeys(faults))
    return settings


def _of_children(environment: Mapping[str, str], asked: set[str]) -> list[str]:
    """Return the faults of the child processes' settings; add the names that they ask for
    to `asked`.
    """
    of_children = Asked({DATABASE_URL: ANY_DATABASE} | dict(environment) | ANY_CHILD)
    faults = all_faults(
        [
            lambda: every_setting.of_server(of_children),
            lambda: store_settings.from_environment(of_children),
            lambda: cluster_uid(of_children),
        ]
    )
    asked |= of_children.names
    role = environment.get(f"{PREFIX}ROLE", Role.ALL.value)
    if role != Role.ALL.value:
        faults.append(
            f"{PREFIX}ROLE={role!r}: `packetboat up` runs one server, which has every role;"
            " leave it out, or run `packetboat serve`"
        )
    for name in _OF_ONE_NODE:
        text = environment.get(PREFIX + name, "")
        if text.lower() not in _OFF:
            faults.append(
                f"{PREFIX}{name}={text!r}: `packetboat up` runs three store nodes, and this is for"
                " one; leave it out, or run `packetboat store-node`"
            )
    return faults


def _unknown(environment: Mapping[str, str], known: Collection[str]) -> Iterator[str]:
    for name in sorted(environment):
        if not name.startswith(PREFIX) or name in known or _OTHER_PROGRAMS.fullmatch(name):
            continue
        near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.8)
        advice = f"did you mean {near[0]}?" if near else "docs/settings.md has all there are"
        yield f"{name}: there is no such setting; {advice}"


def _of_machine(settings: UpSettings, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield faults that another machine might not have: of hosts, ports, directories and files."""
    try:
        bound(settings.host, settings.port or 0).close()
    except CannotListen as error:
        yield str(error)
    if (fault := _unusable(settings.data_dir)) is not None:
        yield f"{PREFIX}DATA_DIR={str(settings.data_dir)!r} (--data-dir): {fault}"
    yield from PeerSettings.from_environment(environment).missing_files()
    trace_file = environment.get(f"{PREFIX}SUBSCRIBE_TRACE_FILE")
    if trace_file and not Path(trace_file).absolute().parent.is_dir():
        yield f"{PREFIX}SUBSCRIBE_TRACE_FILE={trace_file!r}: there is no such directory"


def _unusable(directory: Path) -> str | None:
    """Return why nothing can be kept in the directory, or None. Makes it if it is missing."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe = directory / f".writable-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except (FileExistsError, NotADirectoryError):
        return "a file is in its place"
    except OSError as error:
        return f"it can't be written: {error.strerror}"
    return None
