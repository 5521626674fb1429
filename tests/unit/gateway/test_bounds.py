"""The one list of bounds: it is complete, and the page that operators read is made of it."""

from __future__ import annotations

import re

from gateway.configuration import bounds
from gateway.quotas.settings import QuotaSettings
from tests.parts import ROOT

PARTS = ("appending", "edge", "gateway", "metadata", "publish_forwarder", "subscribe_forwarder")


def listed() -> dict[str, bounds.Bound]:
    return {one.name: one for area in bounds.AREAS for one in area.bounds}


def test_the_page_is_what_the_code_says() -> None:
    assert bounds.PAGE.read_text(encoding="utf-8") == bounds.page(), "make bounds-docs"


def test_names_are_used_once() -> None:
    assert len(listed()) == sum(len(area.bounds) for area in bounds.AREAS)


def test_every_bound_that_tenants_share_and_metrics_name_is_listed() -> None:
    named: set[str] = set()
    for part in PARTS:
        for path in (ROOT / part).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            named |= set(re.findall(r'Shares\([^)]*\bname="(\w+)"', text))
    shown = {one.metric for one in listed().values()}
    assert named, "none is found"
    assert {each for each in named if f'{bounds.REFUSED}{{bound="{each}"}}' not in shown} == set()


def test_every_limit_in_number_is_listed() -> None:
    names = set(QuotaSettings(unset=frozenset()).defaults)
    per_second = {name for name in names if name.endswith("_per_second")}
    rates = {*per_second, "in_flight", "push_concurrency"}
    assert names - rates - set(listed()) == set()
