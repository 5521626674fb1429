"""The table of commands: panel, summary, and module of each."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import NamedTuple

import typer


class Entry(NamedTuple):
    """A command in the table."""

    panel: str
    summary: str
    module: str
    """The module, and behind a colon the name of the group in it, unless that is `app`."""

    def load(self) -> typer.Typer:
        module, _, group = self.module.partition(":")
        found = import_module(f"packetboat.cli.commands.{module}")
        app: typer.Typer = getattr(found, group or "app")
        return app


MESSAGES, CONSUMING, WORK = "Messages", "Topics and subscriptions", "Time, locks, jobs, lake"
TENANCY, HERE = "Tenants and access", "This computer"


@cache
def table() -> dict[str, Entry]:
    return {
        "publish": Entry(MESSAGES, "Publish a file or stdin.", "publish"),
        "pull": Entry(MESSAGES, "Pull messages of a subscription.", "consume"),
        "ack": Entry(MESSAGES, "Acknowledge messages.", "consume"),
        "nack": Entry(MESSAGES, "Return messages as failed.", "consume"),
        "tail": Entry(MESSAGES, "Show messages as they arrive.", "tail"),
        "replay": Entry(MESSAGES, "Read a topic again, without a subscription.", "replay"),
        "topics": Entry(CONSUMING, "Create, show and change topics.", "topics"),
        "subscriptions": Entry(
            CONSUMING, "Create, show and change subscriptions.", "subscriptions"
        ),
        "seek": Entry(CONSUMING, "Move a subscription to another position.", "parts:seek"),
        "snapshots": Entry(CONSUMING, "Save the position of a subscription.", "parts:snapshots"),
        "dead-letters": Entry(
            CONSUMING, "List, redrive and discard failed messages.", "dead_letters"
        ),
        "skip-rules": Entry(CONSUMING, "Rules for messages to skip.", "parts:skip_rules"),
        "flow": Entry(CONSUMING, "Limit the delivery to consumers.", "parts:flow"),
        "signing-secrets": Entry(
            CONSUMING, "Secrets that sign push requests.", "parts:signing_secrets"
        ),
        "schemas": Entry(CONSUMING, "Schemas of message bodies.", "schemas"),
        "schedules": Entry(WORK, "Publish messages at times.", "schedules"),
        "export": Entry(WORK, "Write topics into tables of a lake.", "export"),
        "locks": Entry(WORK, "Show locks and their holders.", "work:locks"),
        "lock": Entry(WORK, "Run a program while holding a lock.", "lock"),
        "jobs": Entry(WORK, "Map-reduce jobs and their tasks.", "work:jobs"),
        "pools": Entry(WORK, "Limits of tasks that run at once.", "work:pools"),
        "tenants": Entry(TENANCY, "Tenants of this installation (operators).", "tenancy:tenants"),
        "clients": Entry(TENANCY, "Programs that get tokens with a secret.", "tenancy:clients"),
        "keys": Entry(TENANCY, "API keys.", "tenancy:keys"),
        "tokens": Entry(TENANCY, "Ask about access tokens, and revoke them.", "tokens"),
        "policies": Entry(TENANCY, "Roles of members on resources.", "tenancy:policies"),
        "issuers": Entry(TENANCY, "Other issuers whose tokens are accepted.", "tenancy:issuers"),
        "quotas": Entry(TENANCY, "Limits of a tenant.", "tenancy:quotas"),
        "usage": Entry(TENANCY, "Usage of a tenant, per hour.", "tenancy:usage"),
        "audit": Entry(TENANCY, "Show who changed which resource.", "tenancy:audit"),
        "login": Entry(HERE, "Check a server and a credential, and save them.", "login"),
        "config": Entry(HERE, "Show and change saved profiles.", "config"),
        "whoami": Entry(HERE, "Show your identity at the server.", "server:whoami"),
        "doctor": Entry(HERE, "Find problems and suggest solutions.", "doctor"),
        "api": Entry(HERE, "Send any request to the HTTP API.", "server:api"),
        "docs": Entry(HERE, "Show where the documentation is.", "server:docs"),
    }
