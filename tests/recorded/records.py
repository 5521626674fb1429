"""The files of records: read, written, compared."""

from __future__ import annotations

import difflib
import functools
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.e2e.installation import Installation
from tests.recorded.areas import SCENARIOS
from tests.recorded.client import Client

RECORDS = Path(__file__).parent / "records"
WORDING = RECORDS / "wording.yaml"
LIMITS = RECORDS / "limits.yaml"
HEADER = "# Written by `python -m tests.recorded --write`. What changes here, clients see.\n"


class Taken(NamedTuple):
    """The records of one run of a scenario."""

    area: str
    records: dict[str, Any]
    wording: dict[str, Any]
    limits: dict[str, Any]


def take(area: str, installation: Installation) -> Taken:
    """Send the requests of an area and return what is to be recorded."""
    with Client(installation, area) as ask:
        SCENARIOS[area](ask)
    return Taken(area, ask.records, ask.wording, ask.limits)


def file_of(area: str) -> Path:
    """Return the file of an area's records."""
    return RECORDS / f"{area}.yaml"


def read(path: Path) -> dict[str, Any]:
    """Return what a file of records has, by name; nothing if there is no such file."""
    if not path.exists():
        return {}
    found: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return found


@functools.cache
def _shared(path: Path) -> dict[str, Any]:
    """Return a file that has parts of all areas, read once for all of them."""
    return read(path)


def write(taken: Taken) -> None:
    """Replace the records of one area, its sentences and its limits."""
    file_of(taken.area).write_text(HEADER + rendered(taken.records), encoding="utf-8")
    for file, of_area in ((WORDING, taken.wording), (LIMITS, taken.limits)):
        whole = read(file) | {taken.area: of_area}
        known = {area: whole[area] for area in sorted(whole) if area in SCENARIOS}
        file.write_text(HEADER + rendered(known, flow=False), encoding="utf-8")


def difference(taken: Taken) -> str:
    """Return what differs from the checked-in records, as lines of a diff; empty if none does."""
    lines = [
        *_diff(taken.area, read(file_of(taken.area)), taken.records),
        *_diff("wording", _shared(WORDING).get(taken.area, {}), taken.wording),
        *_diff("limits", _shared(LIMITS).get(taken.area, {}), taken.limits),
    ]
    return "\n".join(lines)


def rendered(value: Any, *, flow: bool = True) -> str:
    """Return the text of a file, or of one record of it; with small collections on a line."""
    text: str = yaml.dump(
        value,
        Dumper=_Dumper,
        default_flow_style=None if flow else False,
        sort_keys=False,
        allow_unicode=True,
        width=100 if flow else 1000,
    )
    return text


class _Dumper(yaml.CSafeDumper):
    """Writes no anchors: the same value twice is written twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _diff(what: str, before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Compare record by record, so that a long file tells at once which answer is another."""
    lines: list[str] = []
    for name in [*before, *(name for name in now if name not in before)]:
        one, other = (
            rendered({name: records[name]}) if name in records else "" for records in (before, now)
        )
        if name in before and name in now and before[name] == now[name]:
            continue
        lines += difflib.unified_diff(
            one.splitlines(),
            other.splitlines(),
            f"recorded {what} {name}",
            f"answered {what} {name}",
            n=100,
            lineterm="",
        )
    return lines
