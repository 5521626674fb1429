"""Carries out `packetboat signing-keys`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from auth.signing_keys import KeyPolicy, SigningKeys
from edge.sealing import Sealer
from gateway import operators
from gateway.configuration.settings import Role, ServerSettings
from gateway.up.data_dir import State
from gateway.wiring.tokens import key_policy
from metadata.database import Database
from metadata.settings import DatabaseSettings
from metadata.tenancy.signing_keys import KeyRing, SigningKeyRepository
from peering.shared_secret import SharedSecret

NO_STORE = {1: ("127.0.0.1", 1)}
"""Settings of a server name its store, which is not asked here."""
NO_SECRET = SharedSecret(b"")


class Installation(NamedTuple):
    database: DatabaseSettings
    sealer: Sealer
    policy: KeyPolicy


def find(data_dir: Path | None) -> Installation:
    """Return the running `packetboat up`, or the environment's installation.

    Raises ValueError, KeyError or OSError.
    """
    seal_keys = None
    if data_dir is not None:
        state = msgspec.json.decode((data_dir / "state.json").read_bytes(), type=State)
        seal_keys = state.seal_keys
    settings = ServerSettings.from_environment(
        role=Role.GATEWAY, store_nodes=NO_STORE, store_secret=NO_SECRET, seal_keys=seal_keys
    )
    sealer = Sealer.from_text(settings.seal_keys)
    return Installation(operators.find(data_dir), sealer, key_policy(settings))


def look(installation: Installation) -> KeyRing:
    """Return the key ring. Raises MetadataError."""
    return _run(installation, lambda keys: keys.ring())


def replace(installation: Installation, *, forget: bool) -> KeyRing:
    """Replace the signing key; return the ring afterwards. Raises MetadataError."""

    async def work(repository: SigningKeyRepository) -> KeyRing:
        before = await repository.ring()
        kids = frozenset(key.kid for key in before.keys) if forget else frozenset[str]()
        keys = SigningKeys(repository, installation.policy, installation.sealer)
        await keys.replace(forget=kids)
        return await repository.ring()

    return _run(installation, work)


def _run(
    installation: Installation, work: Callable[[SigningKeyRepository], Awaitable[KeyRing]]
) -> KeyRing:
    async def with_database() -> KeyRing:
        database = Database(installation.database)
        await database.connect()
        try:
            return await work(SigningKeyRepository(database))
        finally:
            await database.close()

    return asyncio.run(with_database())
