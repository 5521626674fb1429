"""The models of `packetboat.models`, part by part, and the module that each part is in."""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from openapi import (
    access,
    common,
    forwarders,
    identity,
    jobs,
    locks,
    schemas,
    tenants,
    topics,
    usage,
)
from openapi.areas import OPERATIONS
from openapi.sdk import messaging_models, work_models
from openapi.sdk.models import Keywords, Model, Module, defined, written
from openapi.sdk.text import HEADER

JSON_NULL = msgspec.Raw(b"null")
OTHERS = messaging_models.PARTS | work_models.PARTS
PARTS = OTHERS | {
    "filters": Module(
        "Previews of filters.",
        (
            Model(common.FilterSample),
            Model(common.FilterPreviewSamples),
            Model(common.FilterChanges, defaults={"newly_matched": 0, "no_longer_matched": 0}),
            Model(common.FilterPreview),
        ),
    ),
    "topics": Module(
        "Topics, and the places of their partitions.",
        (
            Model(topics.Retention),
            Keywords(
                "TopicChanges",
                topics.TopicPut,
                "Fields of a topic that may be changed; the others stay.",
                without=topics.TopicPut.FIXED,
            ),
            Keywords(
                "TopicSettings",
                topics.TopicCreate,
                "Fields of a new topic; the others get the server's defaults.",
                only=("partitions", "priorities"),
                base="TopicChanges",
            ),
            Model(
                topics.Topic,
                etag=True,
                always=topics.TopicPut.FIXED,
                defaults={
                    "dedup_window_seconds": 600,
                    "priorities": 1,
                    "ack_history": False,
                },
            ),
            Model(common.Hold),
            Model(topics.PartitionGeneration),
            Model(topics.Placement),
            Model(topics.Partitions),
        ),
    ),
    "tenancy": Module(
        "Tenants, and who may do what in them.",
        (
            Model(tenants.FirstOwner),
            Keywords(
                "TenantSettings",
                tenants.TenantBody,
                "Fields of a tenant; the others get the server's defaults.",
                without=("name",),
            ),
            Model(tenants.FirstOwnerMade, doc="The first client of a tenant."),
            Model(
                tenants.TenantMade,
                etag=True,
                defaults={"token_audience": None},
                doc="A tenant: one of many that share the installation without seeing each other.",
            ),
            Model(access.SecretShown),
            Keywords(
                "ClientSettings",
                access.ClientBody,
                "Fields of a client; the others get the server's defaults.",
                without=("name",),
            ),
            Model(
                access.ClientMade,
                etag=True,
                defaults={"client_secret": None},
                doc="A program that gets access tokens with a secret.",
            ),
            Keywords(
                "KeySettings",
                access.KeyBody,
                "Fields of an API key beside its scopes.",
                without=("name", "scopes"),
            ),
            Model(access.KeyMade, etag=True, defaults={"key": None}, doc="An API key."),
            Model(
                access.Policy,
                etag=True,
                defaults={"resources": ("*",)},
            ),
            Keywords(
                "IssuerSettings",
                access.IssuerBody,
                "Fields of an issuer beside its address and audience.",
                without=("name", "issuer", "audience"),
                types={"algorithms": "Sequence[str]"},
            ),
            Model(
                access.Issuer,
                etag=True,
                defaults={"subject_claim": "sub", "trust": None},
            ),
        ),
        {"Role": access.Role},
    ),
    "usage": Module(
        "Limits of a tenant, its usage, and the audit of its changes.",
        (
            Keywords(
                "Limits",
                tenants.LimitsBody,
                "Limits of a tenant; one left out has the platform's default, None and 0 are no "
                "limit.",
            ),
            Model(
                usage.Quotas,
                etag=True,
                always=("limits",),
                types={"limits": "dict[str, float | None]"},
                defaults={"weight": 1},
            ),
            Model(usage.UsageHour),
            Keywords(
                "AuditFilter",
                OPERATIONS["getOwnAudit"].parameters,
                "A choice of entries: all conditions that are given must hold.",
            ),
            Model(usage.AuditSource),
            Model(
                usage.AuditEntry,
                defaults={"source": usage.AuditSource},
            ),
        ),
        {"Order": usage.Order},
    ),
    "server": Module(
        "The installation: the processes that deliver, and the holder of a token.",
        (
            Model(access.RoleGiven, always=("resources",)),
            Model(
                access.WhoAmI,
                defaults={"token_audience": None},
            ),
            Model(forwarders.ForwarderLoad),
            Model(forwarders.ForwarderUnit),
            Model(forwarders.Forwarder),
            Model(forwarders.ForwarderHint),
            Model(forwarders.Fleet, always=("forwarders",)),
            Model(
                identity.AccessToken,
                defaults={"scope": ""},
                doc="A bearer token; `expires_in` counts from when it was answered.",
            ),
            Model(
                identity.Introspection,
                types={"act": "dict[str, str] | None"},
                doc="The answer whether a token holds; all else is None where it does not.",
            ),
            Model(
                identity.IssuerMetadata,
                defaults={"token_endpoint": ""},
                doc="The places of the token endpoints, and of the keys that tokens are signed "
                "with.",
            ),
            Model(
                identity.SigningKey,
                defaults={"use": "sig"},
            ),
            Model(
                identity.KeySet,
                always=("keys",),
            ),
        ),
    ),
    "jobs": Module(
        "Jobs: map tasks, then at most one reduce task; and pools of their tasks.",
        (
            Model(jobs.TaskRetry),
            Model(jobs.JobParent),
            Model(jobs.JobContent, options="kw_only=True, omit_defaults=True"),
            Model(
                jobs.TaskCounts,
                defaults=dict.fromkeys(jobs.TaskCounts.__struct_fields__, 0),
            ),
            Model(
                jobs.Job,
                methods="Progress",
                always=("map",),
                defaults={"result": None},
                defaults_of=jobs.JobContent,
                types={"state": "JobState", "on_failure": "OnFailure"},
            ),
            Model(
                jobs.JobTask,
                types={"state": "TaskState", "phase": "Phase"},
                defaults={"phase": "map", "attempt": 0},
            ),
            Model(
                jobs.TaskOutput,
                types={"output": "msgspec.Raw"},
                defaults={"output": JSON_NULL},
            ),
            Model(
                jobs.ClaimedTask,
                types={"phase": "Phase", "input": "msgspec.Raw"},
                defaults={"phase": "map", "input": JSON_NULL, "attempt": 1, "lease_until": None},
            ),
            Model(
                jobs.TaskCompletion,
                options="omit_defaults=True",
                types={"output": "msgspec.Raw | msgspec.UnsetType"},
                defaults={"output": UNSET},
            ),
            Model(
                jobs.TaskFailing,
                options="omit_defaults=True",
                types={"retry": "bool | msgspec.UnsetType"},
                defaults={"retry": UNSET},
            ),
            Model(
                jobs.LeaseFailure,
                methods="Failure",
                defaults={"detail": "", "lease_id": None},
            ),
            Model(
                jobs.Pool,
                defaults={"running": 0, "waiting": 0},
            ),
        ),
        {
            "OnFailure": jobs.OnFailure,
            "Phase": jobs.Phase,
            "JobState": jobs.JobState,
            "TaskState": jobs.TaskState,
        },
    ),
    "locks": Module(
        "Locks, as their holder and as others see them.",
        (
            Model(locks.Lock),
            Model(locks.LockState, defaults={"waiting": 0}),
            Model(locks.LockVerified),
        ),
    ),
    "schemas": Module(
        "Schemas that message bodies must fit.",
        (
            Model(schemas.SchemaError),
            Model(schemas.Schema, etag=True),
            Model(schemas.SchemaVersion, defaults={"definition": None}),
            Model(schemas.SchemaChecked),
            Model(schemas.SchemaValidated),
            Model(schemas.SchemaSample),
            Model(schemas.SchemaPreviewed),
        ),
        {"SchemaType": schemas.Type, "Compatibility": schemas.Compatibility},
    ),
}


def _joined(summary: str, *names: str) -> Module:
    """Return one module of several parts: the package imports all of them at once."""
    parts = [PARTS[each] for each in names]
    aliases = {name: kind for each in parts for name, kind in each.aliases.items()}
    return Module(summary, tuple(model for each in parts for model in each.models), aliases)


APART = ("exports", "export_runs", "jobs")
"""Modules that the package does not import: few programs need them."""
MODULES = {
    "messages": _joined(
        "Messages, schedules that publish them, backlogs and dead letters.",
        *("messages", "schedules", "filters", "backlog", "dead_letters"),
    ),
    "topics": _joined(
        "Topics and their schemas, subscriptions and their endpoints, and locks.",
        *("topics", "schemas", "subscriptions", "positions", "push", "locks"),
    ),
    "tenancy": _joined(
        "Tenants, who may do what in them, their limits and usage, and the installation.",
        *("tenancy", "usage", "server"),
    ),
    **{name: PARTS[name] for name in APART},
}
BY_HAND = {
    "data": ("Data", "Page", "Position"),
    "results": ("BacklogUpdate", "PartitionLoad", "Settled"),
}
"""Names of modules that are written by hand."""
METHODS = ("Failure", "Progress", "Readable", "Redriving", "Running")
"""The classes of `packetboat.models.data` that models inherit from."""
PACKAGE = '''\
{header}
"""Models: the values that the API takes and returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

{imports}
from packetboat.renamed import renamed

__all__ = {names}

if not TYPE_CHECKING:  # 0.2.0 called it Retry, as it did two other classes
    __getattr__ = renamed(__name__, {{"Retry": RetryPolicy}})
'''


def generated() -> dict[str, str]:
    """Return the text of each module and of the package, by its name."""
    homes = {each: name for name, module in MODULES.items() for each in defined(module)}
    homes |= {each: name for name, names in BY_HAND.items() for each in names}
    shown = {each: name for each, name in sorted(homes.items()) if name not in APART}
    imports = [f"from packetboat.models.{name} import {each}" for each, name in shown.items()]
    package = PACKAGE.format(header=HEADER, imports="\n".join(imports), names=list(shown))
    homes |= dict.fromkeys(METHODS, "data")
    texts = {name: written(module, homes) for name, module in MODULES.items()}
    return texts | {"__init__": package}
