"""A driver's access to the platform: messages, through Spark, and information about topics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec
from packetboat import Client, PacketboatError
from packetboat.models.export_runs import LaneKey, LaneRange

from spark_exports.driver.bodies.avro_bodies import AvroVersion
from spark_exports.driver.errors import NoAvroSchema, PlatformRefused
from spark_exports.driver.slices import SLICE_MESSAGES
from spark_exports.order import Order
from spark_exports.session import sees_our_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOKEN_FILE = "token"
"""Name of the token's file in the state directory, where the runner puts newer tokens."""
_BEGINNING = datetime.fromtimestamp(0, UTC)


class Platform(Protocol):
    """The platform; methods that ask it raise PlatformRefused."""

    def messages(self, spark: SparkSession, slices: Sequence[LaneRange]) -> DataFrame:
        """Return the messages of slices, each slice in one partition and in the order of
        offsets.
        """

    def avro_versions(self, topics: Iterable[str]) -> dict[str, list[AvroVersion]]:
        """Return all versions of the schema of each topic. Raises NoAvroSchema."""

    def first_offsets(self, keys: Iterable[LaneKey]) -> dict[LaneKey, int]:
        """Return the offset of the first message of each lane that is still stored."""


class HttpPlatform:
    """The platform over HTTP, with the token of the run."""

    def __init__(self, order: Order) -> None:
        self._order = order

    def messages(self, spark: SparkSession, slices: Sequence[LaneRange]) -> DataFrame:
        from packetboat.spark import register

        register(spark)
        spec = self._order.export
        options = {
            "url": self._order.url,
            "ranges": msgspec.json.encode(slices).decode(),
            "rows_per_split": str(SLICE_MESSAGES),
            **self._credential(spark),
        }
        if spec.filter is not None:
            options["filter"] = spec.filter
        if spec.max_bytes_per_second is not None:
            options["max_bytes_per_second"] = str(spec.max_bytes_per_second)
        return spark.read.format("packetboat").options(**options).load()

    def avro_versions(self, topics: Iterable[str]) -> dict[str, list[AvroVersion]]:
        found = {}
        known: dict[str, list[AvroVersion]] = {}
        try:
            with self._client() as client:
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

    def first_offsets(self, keys: Iterable[LaneKey]) -> dict[LaneKey, int]:
        try:
            with self._client() as client:
                return {
                    key: client.messages.offsets(
                        key.topic, key.partition, _BEGINNING, lane=key.lane or None
                    ).first
                    for key in sorted(keys)
                }
        except PacketboatError as error:
            raise PlatformRefused(str(error)) from error

    def _client(self) -> Client:
        return Client(url=self._order.url, token=self._token())

    def _token(self) -> str:
        file = self._token_file
        return (file.read_text() if file.exists() else "") or self._order.token

    @property
    def _token_file(self) -> Path:
        return Path(self._order.state_dir) / TOKEN_FILE

    def _credential(self, spark: SparkSession) -> dict[str, str]:
        """Return the options with the run's token.

        Workers that see our files follow the runner's token file. On other machines a token has to
        be valid for as long as the job that it is given to.
        """
        if not sees_our_files(spark):
            return {"token": self._token()}
        file = self._token_file
        if not file.exists():
            file.touch(mode=0o600)
            file.write_text(self._order.token)
        return {"token_file": str(file)}


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
