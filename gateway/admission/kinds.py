"""The urgency of each operation, by its method and path: which may wait under overload."""

from __future__ import annotations

import enum
from typing import NamedTuple


class Urgency(enum.IntEnum):
    """SETTLING ends work that is under way: refusing it makes more. DEFERRABLE is what nobody's
    message waits for."""

    SETTLING = 0
    NORMAL = 1
    DEFERRABLE = 2


class Kind(NamedTuple):
    """The kind of an operation.

    `waits`: it may take long without costing anything, as a long-poll does, and is counted apart.
    `timed`: it takes longer while the store is busy.
    """

    urgency: Urgency
    waits: bool = False
    timed: bool = False


_SETTLING = frozenset(
    {
        *(
            f"POST /subscriptions/{{name}}/{action}"
            for action in ("ack", "nack", "reject", "release", "modify_ack_deadline", "flow")
        ),
        "DELETE /subscriptions/{name}/flow",
        "POST /locks/{name}:renew",
        "POST /locks/{name}:release",
        *(f"POST /tasks:{action}" for action in ("complete", "fail", "extend", "release")),
        "POST /subscriptions/{name}/pause",
        "POST /exports/{name}:pause",
        "POST /exports/{name}/runs/{run}:cancel",
        "POST /export_runs/{uid}:renew",
        "POST /export_runs/{uid}:finish",
        "PUT /tenants/{tenant}/quotas",
    }
)
_WAITING = frozenset(
    {
        "GET /subscriptions/{name}/messages",
        "GET /topics/{topic}/subscriptions/{name}/messages",
        "POST /subscriptions/{name}:pull",
        "POST /locks/{name}:acquire",
        "POST /pools/{pool}:claim",
        "POST /export_runs:claim",
        "GET /jobs/{job}",
    }
)
_DEFERRABLE = frozenset(
    {
        "GET /subscriptions/{name}/dead_letters",
        "GET /subscriptions/{name}/redrives",
        "GET /subscriptions/{name}/parked_keys",
        "GET /subscriptions/{name}/attempts",
        "GET /subscriptions/{name}/reconciliation",
        "GET /topics/{topic}/partitions/{partition}/messages",
        "GET /topics/{topic}/subscriptions",
        "GET /jobs/{job}/tasks",
        "GET /exports/{name}/runs",
        "GET /exports/{name}/runs/{run}/log",
        "POST /exports/{name}:run",
        "GET /tenants/{tenant}/usage",
        "GET /tenants/{tenant}/audit",
        "POST /subscriptions/{name}:replay",
        "POST /subscriptions/{name}:test",
        "POST /subscriptions/{name}/dead_letters:redrive",
        "POST /subscriptions/{name}/dead_letters:discard",
    }
)
PUBLISHES = frozenset({"POST /topics/{topic}/messages", "POST /topics/{topic}/messages:batch"})
_ORDINARY_READS = frozenset({"/whoami"})


def kind_of(method: str, template: str) -> Kind:
    """Return the kind of an operation; listings (`GET /topics`), previews and exports are
    deferrable.
    """
    operation = f"{method} {template}"
    if operation in _SETTLING:
        return Kind(Urgency.SETTLING)
    if operation in _WAITING:
        return Kind(Urgency.NORMAL, waits=True)
    if template.endswith(":stream"):
        about_backlog = template.endswith("backlog:stream")
        return Kind(Urgency.DEFERRABLE if about_backlog else Urgency.NORMAL, waits=True)
    listing = method == "GET" and template.count("/") == 1 and template not in _ORDINARY_READS
    if listing or operation in _DEFERRABLE or ":preview_" in template or ":export" in template:
        return Kind(Urgency.DEFERRABLE)
    return Kind(Urgency.NORMAL, timed=operation in PUBLISHES)
