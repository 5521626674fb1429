"""The file of lakes, in which operators configure the lakes that tenants may name, with
credentials.

JSON: a list of lakes, or an object with `lakes`. TOML: `[[lakes]]`. Fields are those of
`order.LakeSettings`.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from spark_exports.order import LakeSettings

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_MASTER = re.compile(r"local(\[[^\]]+\])?|(spark|k8s)://\S+|yarn")
_SCHEMES = ("s3", "file")
_FIELDS = frozenset(LakeSettings.__struct_fields__)


class LakesError(ValueError):
    """The file has no valid lakes; each line of the text names one error, and where it is."""


def lakes_in(path: Path) -> dict[str, LakeSettings]:
    """Return the lakes of a file by name, at least one. Raises LakesError."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise LakesError(f"{path}: {error.strerror}") from None
    try:
        said = tomllib.loads(raw.decode()) if path.suffix == ".toml" else msgspec.json.decode(raw)
    except (ValueError, msgspec.DecodeError) as error:
        kind = "TOML" if path.suffix == ".toml" else "JSON"
        raise LakesError(f"{path}: is not {kind}: {error}") from None
    if isinstance(said, dict) and said.keys() == {"lakes"}:
        said = said["lakes"]
    if not isinstance(said, list) or not said:
        raise LakesError(f"{path}: a list of lakes is needed (in TOML: [[lakes]]), at least one")
    problems: list[str] = []
    lakes: dict[str, LakeSettings] = {}
    for place, one in enumerate(said):
        lake = _lake(one, f"lakes[{place}]", problems)
        if lake is None:
            continue
        if lake.name in lakes:
            problems.append(f"lakes[{place}].name: there is a lake {lake.name!r} before it")
        lakes[lake.name] = lake
    if problems:
        raise LakesError("\n".join(f"{path}: {problem}" for problem in problems))
    return lakes


def _lake(said: Any, where: str, problems: list[str]) -> LakeSettings | None:
    if not isinstance(said, dict):
        problems.append(f"{where}: is no object with a name, a warehouse and a catalog")
        return None
    for unknown in sorted(said.keys() - _FIELDS):
        problems.append(f"{where}.{unknown}: there is no such setting of a lake")
    try:
        lake = msgspec.convert(
            {name: value for name, value in said.items() if name in _FIELDS}, LakeSettings
        )
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at `$")
        problems.append(f"{where}{place.removesuffix('`')}: {text}")
        return None
    problems += [f"{where}.{problem}" for problem in _problems(lake)]
    return lake


def _problems(lake: LakeSettings) -> list[str]:
    found = []
    if not _NAME.fullmatch(lake.name):
        found.append("name: 1 to 128 letters, digits, '.', '_' and '-', no sign first")
    url = urlsplit(lake.warehouse)
    if url.scheme:
        if url.scheme not in _SCHEMES:
            found.append(f"warehouse: {lake.warehouse!r} is neither a path nor s3://bucket/…")
        elif url.scheme == "s3" and not url.netloc:
            found.append(f"warehouse: {lake.warehouse!r} names no bucket")
    elif not Path(lake.warehouse).is_absolute():
        found.append(f"warehouse: {lake.warehouse!r} is a path that does not begin with /")
    if not lake.catalog.get("type"):
        found.append("catalog.type: is needed: sql, or rest")
    if not lake.catalog.get("uri"):
        found.append("catalog.uri: is needed: where the catalog is")
    if not _MASTER.fullmatch(lake.spark_master):
        found.append(
            f"spark_master: {lake.spark_master!r} is none of local[*], local[4], "
            "spark://host:port, k8s://… and yarn"
        )
    return found
