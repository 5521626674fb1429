"""A client in JSON."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from edge.problem import invalid
from gateway.names import label_errors, name_errors
from gateway.tenancy.answers import DisplayName, same_name, secrets_view, text_errors
from metadata.tenancy.clients import Client, ClientSpec, ClientState


class ClientBody(msgspec.Struct, forbid_unknown_fields=True):
    """What makes a client, or replaces what it is; the path of a PUT names it."""

    name: str | UnsetType = UNSET
    display_name: DisplayName = ""
    state: Literal["active", "disabled"] = "active"
    labels: dict[str, str] = {}

    def spec(self, path_name: str | None = None) -> ClientSpec:
        """Raises a 422 Problem, or 409 where it names another."""
        if path_name is not None:
            same_name(self.name, path_name)
        name = path_name if path_name is not None else self.name or ""
        errors = name_errors(name) + text_errors(self.display_name, "display_name")
        errors += label_errors(self.labels)
        if errors:
            raise invalid("The body does not fit.", errors)
        return ClientSpec(name, self.display_name, ClientState(self.state), self.labels)


def view(client: Client) -> dict[str, object]:
    """As the API shows it: of its secrets how they begin."""
    return {
        "name": client.name,
        "client_id": client.client_id,
        "display_name": client.display_name,
        "state": client.state.value,
        "labels": client.labels,
        "secrets": secrets_view(client.secrets),
        "tokens_valid_from": client.tokens_valid_from,
        "created_at": client.created_at,
        "updated_at": client.updated_at,
        "last_used_at": client.last_used_at,
    }
