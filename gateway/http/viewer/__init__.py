"""The page that shows the API's description: Swagger UI, served from here, as is.

`vendored.json` pins the npm package it comes from; `make vendor-viewer` fetches it anew. The page
works without a network and under CONTENT_SECURITY: scripts come from this server, none is inline.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

CONTENT_SECURITY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
ASSETS = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "page.js": "text/javascript",
    "page.css": "text/css",
}
"""Files that the page loads, below `/docs/`, with their content types."""


@cache
def page() -> bytes:
    """Return the HTML document."""
    return _read("page.html")


def asset(name: str) -> bytes:
    """Return the content of one of ASSETS, read from disk each time, which is seldom."""
    assert name in ASSETS, name
    return _read(name)


def _read(name: str) -> bytes:
    return (resources.files("gateway.http.viewer") / name).read_bytes()
