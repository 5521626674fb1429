"""The common part of the blocking and the asyncio transport: the form of a request."""

from __future__ import annotations

from urllib.parse import urlsplit

from packetboat.options import Options
from packetboat.transport.library import Attempt, httpx
from packetboat.transport.seam import Request

AGENT = "packetboat-python"
_WITH_BODY = ("POST", "PUT", "PATCH")


class Origin:
    """One server. Made into requests here rather than by httpx's client: that costs a quarter more,
    and knows cookies, redirects and netrc files, none of which we want."""

    def __init__(self, url: str, options: Options) -> None:
        self.url: str = url.rstrip("/")
        self.options = options
        self._headers = {"Host": urlsplit(url).netloc, "User-Agent": AGENT}

    def request(self, request: Request, attempt: Attempt) -> httpx.Request:
        headers = {**self._headers, **request.headers}
        if request.body or request.method in _WITH_BODY:
            headers["Content-Length"] = str(len(request.body))
        return httpx.Request(
            request.method,
            self.url + request.path,
            headers=headers,
            stream=attempt,
            extensions={"timeout": attempt.timeouts},
        )

    def attempt(self, request: Request) -> Attempt:
        return Attempt(request, self.options.connect_timeout_s)
