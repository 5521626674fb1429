"""`/docs`: the vendored viewer, all of it from this server, as a browser offline sees it."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import requests

from gateway.http import viewer
from tests.contract.browser import Browser
from tests.e2e.installation import Installation

FOLDER = Path(viewer.__file__).parent
WIDTHS = (1280, 800, 375)


def test_the_viewer_is_the_pinned_package_with_its_licence() -> None:
    pin = json.loads((FOLDER / "vendored.json").read_text(encoding="utf-8"))
    assert pin["integrity"].startswith("sha512-")
    for name, digest in pin["sha256"].items():
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest, name
    assert "Apache License" in (FOLDER / "LICENSE.txt").read_text(encoding="utf-8")


def test_all_that_the_page_loads_is_served_here(served: Installation) -> None:
    page = requests.get(f"{served.url}/docs", timeout=10)
    policy = page.headers["content-security-policy"]
    scripts = re.search("script-src ([^;]*)", policy)
    assert scripts is not None
    assert scripts[1] == "'self'"
    assert "default-src 'none'" in policy
    loaded = re.findall(r'<(?:script|link)[^>]* (?:src|href)="([^"]+)"', page.text)
    assets = [name.removeprefix("docs/") for name in loaded if not name.startswith("data:")]
    assert sorted(assets) == sorted(viewer.ASSETS)
    assert "<script>" not in page.text
    for name, kind in viewer.ASSETS.items():
        part = requests.get(f"{served.url}/docs/{name}", timeout=10)
        assert part.status_code == 200
        assert part.headers["content-type"].startswith(kind)
        assert part.headers["x-content-type-options"] == "nosniff"
    for wrong in ("vendored.json", "__init__.py", "..%2fpages.py"):
        assert requests.get(f"{served.url}/docs/{wrong}", timeout=10).status_code == 404


def test_a_browser_shows_the_page_within_its_window(served: Installation, browser: Browser) -> None:
    with browser as page:
        page.call("Page.navigate", url=f"{served.url}/docs")
        page.until("document.querySelectorAll('.opblock-tag').length > 10")
        for tag in ("consume", "topics"):
            page.evaluate(f"document.querySelector('#operations-tag-{tag}').click()")
        page.until("document.querySelectorAll('.opblock').length > 10")
        page.evaluate(
            "document.querySelectorAll('.opblock-summary-control')"
            ".forEach((one, at) => at % 12 ? null : one.click())"
        )
        page.evaluate("document.querySelector('.models-control').click()")
        page.until("document.querySelectorAll('.responses-table').length > 2")
        for width in WIDTHS:
            page.call(
                "Emulation.setDeviceMetricsOverride",
                width=width,
                height=900,
                deviceScaleFactor=1,
                mobile=False,
            )
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        asked = [
            event["params"]["request"]["url"]
            for event in page.events
            if event["method"] == "Network.requestWillBeSent"
        ]
        told = [
            event["params"]["entry"]["text"]
            for event in page.events
            if event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error"
        ]
    assert f"{served.url}/docs/swagger-ui-bundle.js" in asked
    assert [url for url in asked if not url.startswith((served.url, "data:"))] == []
    assert told == []
