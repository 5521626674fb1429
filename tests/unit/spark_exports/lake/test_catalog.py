"""The requests to the catalog, and the error if it is away."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from spark_exports.lake.catalog import _with_defaults
from spark_exports.lake.errors import CatalogUnavailable
from spark_exports.lake.lake import Lake
from spark_exports.order import LakeSettings


def test_what_the_operators_url_does_not_say() -> None:
    url = _with_defaults(make_url("postgresql+psycopg://u:p@h/db?connect_timeout=3"), "lake")
    assert url.password == "p"
    assert url.query["connect_timeout"] == "3"
    assert url.query["options"] == (
        "-csearch_path=lake -cstatement_timeout=30000 -clock_timeout=10000"
    )
    own = _with_defaults(make_url("postgresql+psycopg://h/db?options=-csearch_path%3Dmine"), "lake")
    assert own.query["options"] == "-csearch_path=mine"


@pytest.mark.parametrize(
    "scheme", ["postgresql+psycopg://u:secret@127.0.0.1:{}/db", "http://127.0.0.1:{}"]
)
def test_a_catalog_that_is_away(tmp_path: Path, scheme: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        uri = scheme.format(closed.getsockname()[1])
        catalog = {"uri": uri} | ({"type": "rest"} if uri.startswith("http") else {})
        with pytest.raises(CatalogUnavailable) as raised:
            Lake(LakeSettings("default", str(tmp_path), catalog))
    assert raised.value.retry
    assert "secret" not in str(raised.value)
