"""Clients between the API and the rows."""

from __future__ import annotations

from edge.problem import invalid
from gateway.names import label_errors
from gateway.tenancy.answers import name_errors_of, secrets_view
from metadata.tenancy.clients import Client, ClientSpec
from openapi import access


def spec_of(body: access.ClientBody, name: str) -> ClientSpec:
    """Return the client that a body describes; raise a 422 Problem, or 409 for another name."""
    errors = name_errors_of(body.name, name) + label_errors(body.labels)
    if errors:
        raise invalid("The body does not fit.", errors)
    return ClientSpec(name, body.display_name, body.state, body.labels)


def view(client: Client) -> access.Client:
    """Return a client as the API shows it, with the beginning of each secret."""
    return access.Client(
        name=client.name,
        client_id=client.client_id,
        display_name=client.display_name,
        state=client.state,
        labels=dict(client.labels),
        secrets=secrets_view(client.secrets),
        tokens_valid_from=client.tokens_valid_from,
        created_at=client.created_at,
        updated_at=client.updated_at,
        last_used_at=client.last_used_at,
    )
