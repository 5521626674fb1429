"""Writes the options of commands that are fields of requests.

A row of FLAGS names a field of the contract; its type, limits, default and sentence follow from
there. A row adds a sentence where the command takes more than the field, such as an age as a time.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, UNSET

from openapi import (
    access,
    exports,
    flow,
    jobs,
    positions,
    schedules,
    schemas,
    subscriptions,
    tenants,
    topics,
    webhooks,
)
from openapi.json_schema import prose
from openapi.sdk.text import WIDTH

HEAD = '''\
# Generated from openapi/: `make generate`. Do not edit.
"""Options that are fields of requests, with the limits and descriptions of the API."""

from __future__ import annotations

from typing import Annotated

import typer

from packetboat.cli.completing import topic_names

'''


class Flag(NamedTuple):
    """One option. One that is not required may be left out, so that the server's default holds."""

    name: str
    """The name of its type, for the functions of commands."""
    kind: type[msgspec.Struct]
    field: str
    """A field of the body, with dots between the objects that it is within."""
    option: str = ""
    """The option, where it is not spelled like the field."""
    metavar: str = ""
    completion: str = ""
    """The function of `packetboat.cli.completing` that knows possible values."""
    required: bool = False
    also: str = ""
    """A sentence for what the command makes of the option."""
    patched: bool = False
    """Whether a command that changes a part of a thing has it too; then no default is shown."""


PLACE = "One of `latest`, `earliest`, a time and an age such as `2h`."
FLAGS = (
    Flag("Partitions", topics.TopicCreate, "partitions"),
    Flag("Priorities", topics.TopicCreate, "priorities"),
    Flag("RetentionMode", topics.TopicCreate, "retention.mode", patched=True),
    Flag("RetentionSeconds", topics.TopicCreate, "retention.seconds"),
    Flag("DedupWindow", topics.TopicCreate, "dedup_window_seconds", patched=True),
    Flag("TopicSchema", topics.TopicCreate, "schema"),
    Flag("Filter", subscriptions.SubscriptionCreate, "filter"),
    Flag(
        "AckDeadline",
        subscriptions.SubscriptionCreate,
        "ack_deadline_seconds",
        "--ack-deadline",
        "SECONDS",
        patched=True,
    ),
    Flag("MaxAttempts", subscriptions.SubscriptionCreate, "retry.max_attempts", "--max-attempts"),
    Flag("DeadLetterTopic", subscriptions.SubscriptionCreate, "dead_letter_topic"),
    Flag("Ordered", subscriptions.SubscriptionCreate, "ordered", "--ordered"),
    Flag("Delivery", subscriptions.SubscriptionCreate, "delivery"),
    Flag("PushUrl", subscriptions.SubscriptionCreate, "push.url"),
    Flag("Start", subscriptions.SubscriptionCreate, "start", also=PLACE),
    Flag("ScheduleTopic", schedules.SchedulePut, "topic", completion="topic_names"),
    Flag("Cron", schedules.SchedulePut, "cron"),
    Flag("TimeZone", schedules.SchedulePut, "time_zone", patched=True),
    Flag("MissedRuns", schedules.SchedulePut, "missed_runs", patched=True),
    Flag(
        "MessageData",
        schedules.SchedulePut,
        "message.data",
        "--data",
        also="The value is JSON, else a string.",
    ),
    Flag("MessageKey", schedules.SchedulePut, "message.key", "--key"),
    Flag("ExpiresIn", positions.SnapshotCreate, "expires_in_seconds", "--expires-in", "SECONDS"),
    Flag("MaxRunning", jobs.PoolPut, "max_running", required=True),
    Flag("SchemaType", schemas.SchemaCreate, "type", required=True),
    Flag("SchemaCompatibility", schemas.SchemaCreate, "compatibility", patched=True),
    Flag("NewCompatibility", schemas.SchemaPatch, "compatibility", required=True, patched=True),
    Flag("FlowRate", flow.FlowSpec, "messages_per_second", "--rate"),
    Flag("FlowMaxOutstanding", flow.FlowSpec, "max_outstanding"),
    Flag("FlowTtl", flow.FlowSpec, "ttl_seconds", "--ttl", "SECONDS"),
    Flag("FlowReason", flow.FlowSpec, "reason"),
    Flag("SigningKind", webhooks.SigningSecretCreate, "kind"),
    Flag(
        "OldExpiresIn",
        webhooks.SigningSecretCreate,
        "expires_previous_after_seconds",
        "--old-expires-in",
        "SECONDS",
    ),
    Flag("ClientDisplayName", access.ClientBody, "display_name"),
    Flag("ClientState", access.ClientBody, "state"),
    Flag("Scopes", access.KeyBody, "scopes", "--scope"),
    Flag("ExpiresAt", access.KeyBody, "expires_at", metavar="TIME"),
    Flag("KeyState", access.KeyBody, "state"),
    Flag("Role", access.PolicyBody, "role"),
    Flag("Members", access.PolicyBody, "members", "--member"),
    Flag("Resources", access.PolicyBody, "resources", "--resource"),
    Flag("Issuer", access.IssuerBody, "issuer"),
    Flag("Audience", access.IssuerBody, "audience"),
    Flag("Algorithms", access.IssuerBody, "algorithms", "--algorithm"),
    Flag("TenantDisplayName", tenants.TenantBody, "display_name"),
    Flag("TenantState", tenants.TenantBody, "state"),
    Flag(
        "FirstOwner",
        tenants.TenantBody,
        "owner",
        metavar="NAME",
        also="Its secret is shown only once.",
    ),
    Flag("Weight", tenants.QuotaBody, "weight"),
    Flag("ExportTopic", exports.ExportPut, "topic", completion="topic_names"),
    Flag("ExportTable", exports.ExportPut, "table"),
    Flag("Lake", exports.ExportPut, "lake"),
    Flag("ExportFormat", exports.ExportPut, "format"),
    Flag("ExportBody", exports.ExportPut, "body"),
    Flag("ExportStart", exports.ExportPut, "start", also="An age such as `2d` is a time too."),
    Flag("PartitionBy", exports.ExportPut, "partition_by"),
    Flag("KeyBuckets", exports.ExportPut, "key_buckets"),
    Flag(
        "Columns",
        exports.ExportPut,
        "columns",
        "--column",
        "FIELD=TYPE",
        also="An example is `amount=decimal(10,2)`; the option may be repeated.",
    ),
    Flag("KeepData", exports.ExportPut, "keep_data", "--keep-data/--no-keep-data"),
    Flag("ExportFilter", exports.ExportPut, "filter"),
    Flag("ExportCron", exports.ExportPut, "cron"),
    Flag("ExportTimeZone", exports.ExportPut, "time_zone", patched=True),
    Flag("ExportMissedRuns", exports.ExportPut, "missed_runs", patched=True),
    Flag("MaintainCron", exports.ExportPut, "maintain_cron"),
    Flag("MaxBytesPerSecond", exports.ExportPut, "max_bytes_per_second"),
)


def written() -> str:
    """Return the text of `packetboat.cli.flags`."""
    return HEAD + "\n".join(map(option_text, FLAGS)) + "\n"


def option_text(flag: Flag) -> str:
    """Return the definition of one option."""
    field, kind, sentence = _found(flag.kind, flag.field)
    plain, limits, words = _plain(kind)
    spelled = "--" + flag.field.replace(".", "-").replace("_", "-")
    options = [repr(flag.option or spelled)]
    if flag.metavar:
        options.append(f"metavar={flag.metavar!r}")
    text = _help(sentence, words, UNSET if flag.patched or flag.required else field.default)
    text += f" {flag.also}" if flag.also else ""
    options.append(f"help={_in_lines(text)}")
    options += [f"{name}={limit!r}" for name, limit in limits.items()]
    if flag.completion:
        options.append(f"autocompletion={flag.completion}")
    plain += "" if flag.required else " | None"
    return f"{flag.name} = Annotated[{plain}, typer.Option({', '.join(options)})]"


def _in_lines(text: str) -> str:
    """Return the literal of a text, in pieces that fit into a line."""
    pieces = textwrap.wrap(text, WIDTH - 16, drop_whitespace=False)
    return f"({' '.join(map(repr, pieces))})" if len(pieces) > 1 else repr(text)


def _found(kind: type[msgspec.Struct], name: str) -> tuple[msgspec.structs.FieldInfo, Any, str]:
    """Return a field, its annotation and its sentence. Raise an error where it has no sentence."""
    first, _, rest = name.partition(".")
    annotation = get_type_hints(kind, include_extras=True)[first]
    if rest:
        (inner,) = (each for each in _alternatives(annotation) if isinstance(each, type))
        return _found(inner, rest)
    (field,) = (each for each in msgspec.structs.fields(kind) if each.name == name)
    if (sentence := prose(kind).get(name)) is None:
        raise TypeError(f"{kind.__name__}.{name} is an option of a command: describe it")
    return field, annotation, sentence


def _plain(annotation: Any) -> tuple[str, dict[str, float], tuple[str, ...]]:
    """Return the type of an option, its limits, and the words that it may be."""
    limits: dict[str, float] = {}
    for note in _notes(annotation):
        limits |= {
            name: limit for name, limit in (("min", note.ge), ("max", note.le)) if limit is not None
        }
    kind, *others = _alternatives(annotation)
    if others:
        return "str", {}, ()
    if get_origin(kind) is Literal:
        return "str", limits, get_args(kind)
    if get_origin(kind) in (list, dict):
        return "list[str]", {}, ()
    return (kind.__name__ if kind in (int, float, bool) else "str"), limits, ()


def _alternatives(annotation: Any) -> Iterator[Any]:
    """Yield the types that a value may have, without null and without notes."""
    if get_origin(annotation) is Annotated:
        yield from _alternatives(get_args(annotation)[0])
    elif get_origin(annotation) in (Literal, list, dict) or not get_args(annotation):
        if annotation not in (type(None), msgspec.UnsetType):
            yield annotation
    else:
        for each in get_args(annotation):
            yield from _alternatives(each)


def _notes(annotation: Any) -> Iterator[msgspec.Meta]:
    if get_origin(annotation) is Annotated:
        yield from (each for each in get_args(annotation)[1:] if isinstance(each, msgspec.Meta))
        yield from _notes(get_args(annotation)[0])
    elif get_origin(annotation) not in (Literal, list, dict):
        for each in get_args(annotation):
            yield from _notes(each)


def _help(sentence: str, words: tuple[str, ...], default: Any) -> str:
    if words and not all(f"`{word}`" in sentence for word in words):
        *others, last = (f"`{word}`" for word in words)
        sentence += f" One of {', '.join(others)} and {last}."
    if default in (NODEFAULT, UNSET, None, False, "") or isinstance(default, (list, dict)):
        return sentence
    shown = f"{default:g}" if isinstance(default, float) else str(default)
    return f"{sentence} Default: {shown}."
