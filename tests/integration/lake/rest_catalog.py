"""A REST catalog for tests: the few calls of Iceberg's REST specification that a lake makes, over
a SQL catalog. Answers can be lost on the way."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest, Table

from spark_exports.lake.storage import FILE_IO


class RestCatalogServer:
    """An Iceberg REST catalog in this process.

    The next `lose_answers` commits are done, and answered with 504. `headers` are those of the last
    request.
    """

    def __init__(self, directory: Path) -> None:
        self.catalog = SqlCatalog(
            "rest",
            uri=f"sqlite:///{directory}/rest.db",
            warehouse=str(directory),
            **{"py-io-impl": FILE_IO},
        )
        self.lose_answers = 0
        self.headers: dict[str, str] = {}
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer._answer(self, "GET")

            def do_HEAD(self) -> None:
                outer._answer(self, "HEAD")

            def do_POST(self) -> None:
                outer._answer(self, "POST")

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._lock = threading.Lock()

    def __enter__(self) -> RestCatalogServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self.catalog.engine.dispose()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def _answer(self, request: BaseHTTPRequestHandler, method: str) -> None:
        length = int(request.headers.get("Content-Length", 0))
        body = json.loads(request.rfile.read(length)) if length else {}
        self.headers = dict(request.headers)
        path = unquote(request.path)
        self.asked.append(f"{method} {path}")
        with self._lock:
            status, answer = self._do(method, path, body)
        content = json.dumps(answer).encode() if answer is not None else b""
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        if method != "HEAD":
            request.wfile.write(content)

    def _do(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        for pattern, call in _ROUTES:
            found = re.fullmatch(pattern, f"{method} {path.partition('?')[0]}")
            if found:
                try:
                    return call(self, body, *found.groups())
                except NoSuchTableError as error:
                    return 404, _error("NoSuchTableException", error)
                except (TableAlreadyExistsError, NamespaceAlreadyExistsError) as error:
                    return 409, _error("AlreadyExistsException", error)
                except CommitFailedException as error:
                    return 409, _error("CommitFailedException", error)
        return 404, _error("NotFoundException", path)

    def _config(self, _: Any) -> tuple[int, Any]:
        return 200, {"defaults": {}, "overrides": {}}

    def _create_namespace(self, body: Any) -> tuple[int, Any]:
        self.catalog.create_namespace(tuple(body["namespace"]))
        return 200, {"namespace": body["namespace"], "properties": {}}

    def _create_table(self, body: Any, namespace: str) -> tuple[int, Any]:
        table = self.catalog.create_table(
            (namespace, body["name"]),
            Schema.model_validate(body["schema"]),
            body["location"],
            PartitionSpec.model_validate(body["partition-spec"]),
            properties=body["properties"],
        )
        return 200, _loaded(table)

    def _load_table(self, _: Any, namespace: str, name: str) -> tuple[int, Any]:
        return 200, _loaded(self.catalog.load_table((namespace, name)))

    def _commit(self, body: Any, namespace: str, name: str) -> tuple[int, Any]:
        wanted = CommitTableRequest.model_validate(
            {"identifier": {"namespace": [namespace], "name": name}} | body
        )
        table = self.catalog.load_table((namespace, name))
        done = self.catalog.commit_table(table, wanted.requirements, wanted.updates)
        if self.lose_answers:
            self.lose_answers -= 1
            return 504, _error("TimeoutException", "lost")
        return 200, json.loads(done.model_dump_json(by_alias=True))


def _loaded(table: Table) -> dict[str, Any]:
    return {
        "metadata-location": table.metadata_location,
        "metadata": json.loads(table.metadata.model_dump_json(by_alias=True)),
        "config": {},
    }


def _error(kind: str, error: object) -> dict[str, Any]:
    return {"error": {"message": str(error), "type": kind, "code": 0}}


_ROUTES: list[tuple[str, Callable[..., tuple[int, Any]]]] = [
    (r"GET /v1/config", RestCatalogServer._config),
    (r"POST /v1/namespaces", RestCatalogServer._create_namespace),
    (r"POST /v1/namespaces/([^/]+)/tables", RestCatalogServer._create_table),
    (r"GET /v1/namespaces/([^/]+)/tables/([^/]+)", RestCatalogServer._load_table),
    (r"POST /v1/namespaces/([^/]+)/tables/([^/]+)", RestCatalogServer._commit),
]
