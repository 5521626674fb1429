"""The checks of `packetboat export-runner check`.

They are quicker than a run. Nothing is written but one small file in each warehouse, which is
deleted at once.
"""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from spark_exports.order import LakeSettings
from spark_exports.runner import requirements
from spark_exports.runner.settings import RunnerSettings, java_environment


class Finding(NamedTuple):
    """The result of one check."""

    well: bool
    what: str
    text: str


def checked(settings: RunnerSettings, lakes: Mapping[str, LakeSettings]) -> Iterator[Finding]:
    """Yield the findings one by one."""
    yield Finding(True, "lakes", f"{settings.lakes} has {', '.join(sorted(lakes))}")
    absent = requirements.missing()
    text = requirements.advice(absent) if absent else "PySpark, PyArrow and PyIceberg are there"
    yield Finding(not absent, "packages", text)
    yield _java()
    yield asyncio.run(_platform(sorted(lakes)))
    if not absent:
        for name in sorted(lakes):
            yield from _lake(lakes[name])


def _java() -> Finding:
    from spark_exports.java import JavaMissing, java_of

    with tempfile.TemporaryDirectory() as directory:
        try:
            java = java_of(java_environment(), Path(directory))
        except JavaMissing as error:
            return Finding(False, "java", str(error))
    return Finding(True, "java", f"version {java.version}")


async def _platform(lakes: list[str]) -> Finding:
    """Check the permissions of the credential; a claim would take a run."""
    from packetboat import AsyncClient
    from packetboat.errors import PacketboatError

    try:
        async with AsyncClient(retry_for_s=0) as client:
            url = ", ".join(client.options.urls)
            who = await client.whoami()
    except (PacketboatError, ValueError) as error:
        return Finding(False, "platform", str(error))
    permissions = {grant.partition(":")[0] for grant in who.grants}
    if "run_exports" not in permissions:
        text = f"{who.subject} may not run exports at {url}: the permission run_exports is needed"
        return Finding(False, "platform", text)
    return Finding(True, "platform", f"{who.subject} may run exports at {url}")


def _lake(lake: LakeSettings) -> Iterator[Finding]:
    from spark_exports.lake.catalog import close_catalog, open_catalog
    from spark_exports.lake.storage import LakeFileIO, write_whole

    what = f"lake {lake.name}"
    try:
        catalog = open_catalog(lake)
        tenants = len(catalog.list_namespaces())
        close_catalog(catalog)
    except Exception as error:
        # The libraries of catalogs raise exceptions of many kinds.
        yield Finding(False, f"{what}, catalog", f"{type(error).__name__}: {error}")
    else:
        yield Finding(True, f"{what}, catalog", f"answers, and has tables of {tenants} tenants")
    path = f"{lake.warehouse.rstrip('/')}/.check-{secrets.token_hex(8)}"
    try:
        files = LakeFileIO(dict(lake.storage))
        write_whole(files, path, b"packetboat")
        files.delete(path)
    except Exception as error:
        yield Finding(False, f"{what}, warehouse", f"{type(error).__name__}: {error}")
    else:
        yield Finding(True, f"{what}, warehouse", f"{lake.warehouse} can be written")
