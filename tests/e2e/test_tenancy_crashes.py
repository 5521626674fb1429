"""kill -9 of everything at any moment: no change without its audit, no tenant half deleted."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import requests

from tests.e2e.installation import Installation

LONG_S = 90.0


def kill_all(installation: Installation) -> None:
    """Server processes, store and Postgres at once."""
    assert installation.process is not None
    for pid in (installation.process.pid, *installation.processes()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    installation.process.wait()
    installation.process = None
    until(lambda: not installation.processes())


def until(met: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + LONG_S
    while not met():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


class Maker(threading.Thread):
    """Makes policies until the server is gone."""

    def __init__(self, installation: Installation, number: int) -> None:
        super().__init__()
        self._http, self._url, self._number = installation.session(), installation.url, number
        self.answered: list[str] = []

    def run(self) -> None:
        body = {"role": "viewer", "members": ["client:somebody"]}
        with suppress(requests.RequestException):
            for at in range(100_000):
                name = f"p{self._number}-{at}"
                answer = self._http.put(f"{self._url}/policies/{name}", json=body, timeout=30)
                if answer.status_code == 201:
                    self.answered.append(f"policies/{name}")


def listed(http: requests.Session, url: str, name: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    token = ""
    while token is not None:
        separator = "&" if "?" in url else "?"
        page = http.get(f"{url}{separator}page_size=1000&page_token={token}", timeout=30).json()
        found += page[name]
        token = page["next_page_token"]
    return found


def test_no_change_is_without_its_audit(fresh: Installation) -> None:
    fresh.start()
    makers = [Maker(fresh, number) for number in range(4)]
    for maker in makers:
        maker.start()
    until(lambda: sum(len(maker.answered) for maker in makers) >= 100)
    kill_all(fresh)
    for maker in makers:
        maker.join()
    fresh.start()
    http = fresh.session()
    audited = {
        each["resource"]: each["status"]
        for each in listed(http, f"{fresh.url}/audit?action=putPolicy", "entries")
    }
    made = {
        f"policies/{each['name']}" for each in listed(http, f"{fresh.url}/policies", "policies")
    }
    answered = {name for maker in makers for name in maker.answered}
    assert answered <= made, "an answered change is lost"
    assert made <= audited.keys(), "a change without its row"
    assert {audited[name] for name in answered} == {201}
    open_ends = {name for name, status in audited.items() if status is None}
    assert len(open_ends) <= len(makers), "one request of each was under way"
    fresh.stop()


def test_a_tenant_that_was_being_deleted_goes_on_after_a_crash(fresh: Installation) -> None:
    fresh.settings["PACKETBOAT_TOPIC_REPAIR_AFTER_S"] = "5"
    fresh.start()
    http, url = fresh.session(), fresh.url
    owner = http.post(f"{url}/tenants", json={"name": "acme", "owner": {}}, timeout=30).json()
    grant = {"grant_type": "client_credentials"}
    credentials = (owner["owner"]["client_id"], owner["owner"]["client_secret"])
    token = requests.post(f"{url}/oauth/token", data=grant, auth=credentials, timeout=30).json()
    tenant = requests.Session()
    tenant.headers["Authorization"] = f"Bearer {token['access_token']}"
    for number in range(30):
        made = tenant.post(f"{url}/topics", json={"name": f"t{number}"}, timeout=30)
        made.raise_for_status()
        tenant.post(f"{url}/topics/t{number}/messages", data=b"x", timeout=30).raise_for_status()
    gone = http.delete(f"{url}/tenants/acme?force=true", timeout=30)
    assert gone.status_code == 202
    kill_all(fresh)
    fresh.start()
    http, url = fresh.session(), fresh.url
    assert tenant.get(f"{url}/topics", timeout=30).status_code in (401, 403)
    # Topics that the crash found half gone are finished by their own repair.
    until(lambda: http.get(f"{url}/tenants/acme", timeout=30).status_code == 404)
    again = http.post(f"{url}/tenants", json={"name": "acme"}, timeout=30)
    assert again.status_code == 201
    fresh.stop()
