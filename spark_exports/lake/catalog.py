"""The catalog of a lake: PyIceberg's, as its operator configures it.

Postgres by default (`uri` = `postgresql+psycopg://…`): a schema of its own, which is made when
missing, sane timeouts, connections checked before use. With a catalog of another type (`type` =
`rest`, …) the properties go to PyIceberg as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import requests
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitStateUnknownException,
    ServerError,
    ServiceUnavailableError,
    TooManyRequestsError,
)
from sqlalchemy import create_engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    DBAPIError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    ProgrammingError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.schema import CreateSchema

from spark_exports.lake.errors import CatalogUnavailable
from spark_exports.lake.storage import FILE_IO
from spark_exports.order import LakeSettings

DEFAULT_SCHEMA = "lake"
_CONNECTION = {
    "application_name": "packetboat-lake",
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
_SESSION = {"statement_timeout": "30000", "lock_timeout": "10000"}
_MADE_TOGETHER_TRIES = 5


def open_catalog(settings: LakeSettings) -> Catalog:
    """Connect to the catalog, whose own tables exist afterwards.

    The property `schema` is the schema of Postgres. Raises CatalogUnavailable.
    """
    properties = {
        **settings.storage,
        **settings.catalog,
        "warehouse": settings.warehouse,
        "py-io-impl": FILE_IO,
    }
    schema = properties.pop("schema", DEFAULT_SCHEMA)
    uri = properties.get("uri", "")
    with reachable():
        if uri.startswith("postgresql"):
            url = _with_defaults(make_url(uri), schema)
            properties["uri"] = url.render_as_string(hide_password=False)
            properties.setdefault("pool_pre_ping", "true")
            _make_schema(url, schema)
        return _load(settings.name, properties)


def close_catalog(catalog: Catalog) -> None:
    """Close the catalog and its connections."""
    if isinstance(catalog, SqlCatalog):
        catalog.engine.dispose()
    catalog.close()


def forget_connections(catalog: Catalog) -> None:
    """Drop all connections after a COMMIT that failed.

    A connection that is still there may be inside of the transaction (SQLite's is), and show
    changes as committed that were not.
    """
    if isinstance(catalog, SqlCatalog):
        catalog.engine.dispose()


@contextmanager
def reachable() -> Iterator[None]:
    """Raise CatalogUnavailable for every error that means that the catalog is away or was lost."""
    try:
        yield
    except (
        OperationalError,
        InterfaceError,
        PoolTimeout,
        requests.ConnectionError,
        requests.Timeout,
        ServiceUnavailableError,
        ServerError,
        CommitStateUnknownException,
        TooManyRequestsError,
    ) as error:
        raise _unavailable(error) from error
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
        raise _unavailable(error) from error


def _unavailable(error: Exception) -> CatalogUnavailable:
    said = str(error.orig if isinstance(error, DBAPIError) else error).strip()
    return CatalogUnavailable(f"the catalog is away: {said.splitlines()[0] if said else error!r}")


def _with_defaults(url: URL, schema: str) -> URL:
    """Add the settings that the operator's URL does not have."""
    options = " ".join(f"-c{name}={value}" for name, value in _SESSION.items())
    query = {"options": f"-csearch_path={schema} {options}", **_CONNECTION, **url.query}
    return url.set(query=query)


def _make_schema(url: URL, schema: str) -> None:
    engine = create_engine(url)
    try:
        for tries_left in reversed(range(_MADE_TOGETHER_TRIES)):
            try:
                with engine.begin() as connection:
                    connection.execute(CreateSchema(schema, if_not_exists=True))
                return
            except (IntegrityError, ProgrammingError):
                # another process made it at the same moment
                if not tries_left:
                    raise
    finally:
        engine.dispose()


def _load(name: str, properties: dict[str, str]) -> Catalog:
    for tries_left in reversed(range(_MADE_TOGETHER_TRIES)):
        try:
            return load_catalog(name, **properties)
        except (IntegrityError, ProgrammingError, OperationalError) as error:
            # The same may happen with its tables; SQLite reports it as an OperationalError.
            is_late = not isinstance(error, OperationalError) or "already exists" in str(error)
            if not is_late or not tries_left:
                raise
    raise AssertionError("a loop that always returns or raises")
