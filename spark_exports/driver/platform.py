"""What a driver asks the platform beside messages: the Avro schemas of topics."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from packetboat import Client, PacketboatError

from spark_exports.driver.bodies.avro_bodies import AvroVersion
from spark_exports.driver.errors import NoAvroSchema, PlatformRefused


def avro_versions(url: str, token: str, topics: Iterable[str]) -> dict[str, list[AvroVersion]]:
    """All versions of the schema of each topic. Raises NoAvroSchema, PlatformRefused."""
    found = {}
    known: dict[str, list[AvroVersion]] = {}
    try:
        with Client(url=url, token=token) as client:
            for topic in sorted(set(topics)):
                name = client.topics.get(topic).schema
                if name is None:
                    raise NoAvroSchema(f"the topic {topic} has no schema")
                if name not in known:
                    known[name] = _versions(client, name)
                found[topic] = known[name]
    except PacketboatError as error:
        raise PlatformRefused(str(error)) from error
    return found


def _versions(client: Client, name: str) -> list[AvroVersion]:
    kind = client.schemas.get(name).type
    if kind != "avro":
        raise NoAvroSchema(f"the schema {name} is {kind}, not avro")
    versions = []
    for listed in client.schemas.versions(name):
        one = client.schemas.version(name, listed.number)
        definition = msgspec.json.encode(one.definition).decode()
        versions.append(AvroVersion(one.number, one.created_at, definition))
    return versions
