# Generated from openapi/: `make generate`. Do not edit.
"""Calls of issuers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from packetboat.calls.call import (
    Call,
    change,
    delete,
    fetch,
    page,
    part,
    put,
)
from packetboat.models import Issuer
from packetboat.models.page import Page


def create_issuer(
    name: str, issuer: str, settings: Mapping[str, Any], audience: str | None
) -> Call[Issuer]:
    body: dict[str, Any] = {"name": name, "issuer": issuer, **settings}
    put(body, audience=audience)
    return change("POST", "/issuers", body, Issuer, tagged=True)


def get_issuer(name: str) -> Call[Issuer]:
    return fetch(f"/issuers/{part(name)}", Issuer, tagged=True)


def list_issuers(page_size: int, page_token: str | None) -> Call[Page[Issuer]]:
    return page("/issuers", "issuers", Issuer, page_size, page_token)


def put_issuer(
    name: str, issuer: str, settings: Mapping[str, Any], audience: str | None, if_match: str | None
) -> Call[Issuer]:
    body: dict[str, Any] = {"issuer": issuer, **settings}
    put(body, audience=audience)
    return change(
        "PUT", f"/issuers/{part(name)}", body, Issuer, safe=True, if_match=if_match, tagged=True
    )


def delete_issuer(name: str, if_match: str | None, force: bool) -> Call[None]:
    return delete(f"/issuers/{part(name)}", force=force, if_match=if_match)
