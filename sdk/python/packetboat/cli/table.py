"""Every command of ours: its panel, a line about it, and how it is imported."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import NamedTuple

import typer


class Entry(NamedTuple):
    """One line of the table."""

    panel: str
    summary: str
    module: str

    def load(self) -> typer.Typer:
        app: typer.Typer = import_module(f"packetboat.cli.commands.{self.module}").app
        return app


MESSAGES, CONSUMING, WORK = "Messages", "Topics and subscriptions", "Time, locks, jobs, lake"
TENANCY, HERE = "Tenants and access", "This computer"


@cache
def table() -> dict[str, Entry]:
    return {
        "publish": Entry(MESSAGES, "Publish a file or what comes on stdin.", "publish"),
        "pull": Entry(MESSAGES, "Take some messages of a subscription.", "consume"),
        "ack": Entry(MESSAGES, "Say that messages are done.", "consume"),
        "nack": Entry(MESSAGES, "Give messages back as failed.", "consume"),
        "tail": Entry(MESSAGES, "Show messages as they come.", "tail"),
        "replay": Entry(MESSAGES, "Read a topic again, without a subscription.", "replay"),
        "topics": Entry(CONSUMING, "Make, look at and change topics.", "topics"),
        "subscriptions": Entry(
            CONSUMING, "Make, look at and change subscriptions.", "subscriptions"
        ),
        "seek": Entry(CONSUMING, "Move a subscription back or forth.", "seek"),
        "snapshots": Entry(CONSUMING, "Keep where a subscription stands.", "snapshots"),
        "dead-letters": Entry(
            CONSUMING, "What failed for good: look, redrive, discard.", "dead_letters"
        ),
        "skip-rules": Entry(CONSUMING, "What a subscription passes over.", "skip_rules"),
        "flow": Entry(CONSUMING, "How much can be taken now.", "flow"),
        "signing-secrets": Entry(
            CONSUMING, "What requests to an endpoint are signed with.", "signing_secrets"
        ),
        "schemas": Entry(CONSUMING, "Contracts for message bodies.", "schemas"),
        "schedules": Entry(WORK, "Publish by the clock.", "schedules"),
        "export": Entry(WORK, "Write topics into tables of a lake.", "export"),
        "locks": Entry(WORK, "Who holds which lock.", "locks"),
        "lock": Entry(WORK, "Run a program while holding a lock.", "lock"),
        "jobs": Entry(WORK, "Map-reduce jobs and their tasks.", "jobs"),
        "pools": Entry(WORK, "How much of a kind of work runs at once.", "pools"),
        "tenants": Entry(TENANCY, "Tenants of this installation (operators).", "tenants"),
        "clients": Entry(TENANCY, "Programs that get tokens with a secret.", "clients"),
        "keys": Entry(TENANCY, "API keys.", "keys"),
        "tokens": Entry(TENANCY, "Ask about access tokens, and revoke them.", "tokens"),
        "policies": Entry(TENANCY, "Who has which role on what.", "policies"),
        "issuers": Entry(TENANCY, "Whose tokens are accepted beside ours.", "issuers"),
        "quotas": Entry(TENANCY, "What the tenant may use.", "quotas"),
        "usage": Entry(TENANCY, "What the tenant used, per hour.", "usage"),
        "audit": Entry(TENANCY, "Who changed what.", "audit"),
        "login": Entry(HERE, "Keep a server and a credential, checked, in a profile.", "login"),
        "config": Entry(HERE, "The profiles that are kept.", "config"),
        "whoami": Entry(HERE, "Who the server takes you for.", "whoami"),
        "doctor": Entry(HERE, "Look for what is wrong, and say what helps.", "doctor"),
        "api": Entry(HERE, "Send any request to the HTTP API.", "raw"),
        "docs": Entry(HERE, "Where the documentation is.", "docs"),
    }
