"""Requests of the `requests` library, sent over HTTP/2 without TLS."""

from __future__ import annotations

import io
from typing import Any

import httpx
import requests
from requests.adapters import BaseAdapter, HTTPAdapter
from urllib3 import HTTPResponse


class OverHttp2(BaseAdapter):
    """`session.mount("http://", OverHttp2())`; one connection for all."""

    def __init__(self) -> None:
        super().__init__()
        self._client = httpx.Client(http1=False, http2=True, timeout=20, trust_env=False)
        self._http1 = HTTPAdapter()

    def send(self, request: requests.PreparedRequest, **_: Any) -> requests.Response:
        ours = {"connection", "content-length", "transfer-encoding", "host"}
        headers = [
            (name, value) for name, value in request.headers.items() if name.lower() not in ours
        ]
        body = request.body
        sent = httpx.Request(
            str(request.method),
            str(request.url),
            headers=headers,
            content=body.encode() if isinstance(body, str) else body,
        )
        answer = self._client.send(sent)
        assert answer.http_version == "HTTP/2"
        raw = HTTPResponse(
            io.BytesIO(answer.content),
            headers=[
                (name, value)
                for name, value in answer.headers.multi_items()
                if name != "content-encoding"
            ],
            status=answer.status_code,
            preload_content=False,
        )
        return self._http1.build_response(request, raw)

    def close(self) -> None:
        self._client.close()
        self._http1.close()
