# Generated from openapi/: `make generate`. Do not edit.
"""Options that are fields of requests, with the limits and descriptions of the API."""

from __future__ import annotations

from typing import Annotated

import typer

from packetboat.cli.completing import topic_names

Partitions = Annotated[
    int | None,
    typer.Option(
        "--partitions",
        help="The number of partitions; it can grow later. Default: 4.",
        min=1,
        max=256,
    ),
]
Priorities = Annotated[
    int | None,
    typer.Option(
        "--priorities",
        help=(
            "The number of lanes of each partition, for good; partitions times priorities is at "
            "most 1024. Default: 1."
        ),
        min=1,
        max=10,
    ),
]
RetentionMode = Annotated[
    str | None,
    typer.Option(
        "--retention-mode",
        help=(
            "`consume`: a message goes once every subscription is done with it; `retain`: by age "
            "and bytes."
        ),
    ),
]
RetentionSeconds = Annotated[
    int | None,
    typer.Option(
        "--retention-seconds",
        help="Seconds after which a message goes, acked or not. Null: seven days.",
        min=600,
        max=31536000,
    ),
]
DedupWindow = Annotated[
    int | None,
    typer.Option(
        "--dedup-window-seconds",
        help="Seconds for which idempotency keys are remembered; 0 turns deduplication off.",
        min=0,
        max=86400,
    ),
]
TopicSchema = Annotated[
    str | None, typer.Option("--schema", help="The name of a schema that bodies must fit.")
]
Filter = Annotated[
    str | None,
    typer.Option(
        "--filter",
        help=(
            "A CEL expression over `attributes`, `data` (a JSON body, else null), `key`, "
            "`content_type`, `priority`, `publish_time`, `partition`, `offset` and "
            "`publisher_id`. Messages for which it is not true are not delivered."
        ),
    ),
]
AckDeadline = Annotated[
    float | None,
    typer.Option(
        "--ack-deadline",
        metavar="SECONDS",
        help="Seconds that a message is leased to a consumer.",
        min=1,
        max=43200,
    ),
]
MaxAttempts = Annotated[
    int | None,
    typer.Option(
        "--max-attempts",
        help=(
            "The number of failures after which a message is given up. A number needs a "
            "`dead_letter_topic`, or `park`."
        ),
        min=1,
        max=10000,
    ),
]
DeadLetterTopic = Annotated[
    str | None,
    typer.Option(
        "--dead-letter-topic",
        help=(
            "The topic that gets messages whose attempts are used up, and rejected ones. It must "
            "be there, and be another topic."
        ),
    ),
]
Ordered = Annotated[
    bool | None,
    typer.Option(
        "--ordered",
        help=(
            "Messages of a key are delivered one by one, in the order in which they were published."
        ),
    ),
]
Delivery = Annotated[
    str | None,
    typer.Option(
        "--delivery",
        help=(
            "The promise for each message: `at_least_once` delivers it until it is acked; "
            "`at_most_once` acks it before it is delivered; `exactly_once` delivers it until it "
            "is acked, and counts one ack. Default: at_least_once."
        ),
    ),
]
PushUrl = Annotated[
    str | None,
    typer.Option(
        "--push-url",
        help=(
            "The URL of the endpoint: https, to a public address, unless the installation allows "
            "more. Redirects are not followed."
        ),
    ),
]
Start = Annotated[
    str | None,
    typer.Option(
        "--start",
        help=(
            "Where the subscription begins: at what is published from now on, at the first "
            "message kept, at a time, at an offset of every partition, or with what was unacked "
            "in a snapshot. One of `latest`, `earliest`, a time and an age such as `2h`."
        ),
    ),
]
ScheduleTopic = Annotated[
    str | None,
    typer.Option(
        "--topic", help="The topic that its messages are published to.", autocompletion=topic_names
    ),
]
Cron = Annotated[
    str | None,
    typer.Option(
        "--cron",
        help=(
            "A plan of minute, hour, day of month, month and day of week; or @hourly, @daily, "
            "@weekly, @monthly or @yearly."
        ),
    ),
]
TimeZone = Annotated[
    str | None, typer.Option("--time-zone", help="A name of the IANA time zone database.")
]
MissedRuns = Annotated[
    str | None,
    typer.Option(
        "--missed-runs",
        help=(
            "The rule for runs that could not be made in their minute. One of `skip`, `latest` "
            "and `all`."
        ),
    ),
]
MessageData = Annotated[
    str | None,
    typer.Option(
        "--data",
        help=(
            "JSON, or a string, which is text where content_type is not JSON. The value is JSON, "
            "else a string."
        ),
    ),
]
MessageKey = Annotated[
    str | None,
    typer.Option(
        "--key",
        help=(
            "The key of the message: messages of a topic with the same key are in the same "
            "partition, in order. Null: it has none."
        ),
    ),
]
ExpiresIn = Annotated[
    float | None,
    typer.Option(
        "--expires-in",
        metavar="SECONDS",
        help="Seconds after which the snapshot goes. Default: 604800.",
        min=1,
        max=31536000,
    ),
]
MaxRunning = Annotated[
    int,
    typer.Option(
        "--max-running",
        help="Most tasks of the pool that are leased at once; null is no limit, and 0 leases none.",
        min=0,
        max=1000000,
    ),
]
SchemaType = Annotated[
    str,
    typer.Option("--type", help="The language of the definition. One of `json_schema` and `avro`."),
]
SchemaCompatibility = Annotated[
    str | None,
    typer.Option(
        "--compatibility",
        help=(
            "The rule for a new version. backward: it reads messages that were written with the "
            "last version. forward: the last version reads messages that are written with the new"
            " one. One of `none`, `backward`, `forward` and `full`."
        ),
    ),
]
NewCompatibility = Annotated[
    str,
    typer.Option(
        "--compatibility",
        help="The rule for later versions. One of `none`, `backward`, `forward` and `full`.",
    ),
]
FlowRate = Annotated[
    float | None,
    typer.Option(
        "--rate",
        help="Messages per second, for all consumers together; 0 stops delivery.",
        min=0,
        max=1000000,
    ),
]
FlowMaxOutstanding = Annotated[
    int | None,
    typer.Option(
        "--max-outstanding",
        help="The number of leased and waiting messages at which new deliveries pause.",
        min=1,
        max=1000000,
    ),
]
FlowTtl = Annotated[
    float | None,
    typer.Option(
        "--ttl",
        metavar="SECONDS",
        help="Seconds that the limit holds. Default: 60.",
        min=1,
        max=3600,
    ),
]
FlowReason = Annotated[
    str | None, typer.Option("--reason", help="The reason that people see with the limit.")
]
SigningKind = Annotated[
    str | None,
    typer.Option(
        "--kind",
        help=(
            "The kind of signature: receivers of `v1` need the secret, and of `v1a` the public "
            "key. Default: v1."
        ),
    ),
]
OldExpiresIn = Annotated[
    float | None,
    typer.Option(
        "--old-expires-in",
        metavar="SECONDS",
        help="Seconds that the earlier keys of the kind go on signing. Default: 86400.",
        min=0,
        max=2592000,
    ),
]
ClientDisplayName = Annotated[str | None, typer.Option("--display-name", help="A name for people.")]
ClientState = Annotated[
    str | None,
    typer.Option(
        "--state",
        help=(
            "The secrets and tokens of a `disabled` client are refused. One of `active` and "
            "`disabled`. Default: active."
        ),
    ),
]
Scopes = Annotated[
    list[str] | None,
    typer.Option(
        "--scope",
        help=(
            "All that it may do: permissions, each alone or with a resource: `read`, "
            "`publish:topics/orders-*`."
        ),
    ),
]
ExpiresAt = Annotated[
    str | None,
    typer.Option(
        "--expires-at",
        metavar="TIME",
        help="The time from which the key is refused (RFC 3339); null: never.",
    ),
]
KeyState = Annotated[
    str | None,
    typer.Option(
        "--state",
        help="A `disabled` key is refused. One of `active` and `disabled`. Default: active.",
    ),
]
Role = Annotated[
    str | None,
    typer.Option(
        "--role",
        help=(
            "The role of the members: each has its permissions on the resources. One of `owner`, "
            "`admin`, `publisher`, `subscriber` and `viewer`."
        ),
    ),
]
Members = Annotated[
    list[str] | None,
    typer.Option(
        "--member",
        help=(
            "`client:NAME`, or `issuer:NAME#SUBJECT` for what an issuer says; `*` stands for any "
            "characters."
        ),
    ),
]
Resources = Annotated[
    list[str] | None,
    typer.Option(
        "--resource",
        help=(
            "`*` for everything, or `topics/NAME`, `subscriptions/NAME`, `schemas/NAME`, "
            "`schedules/NAME`, `snapshots/NAME`, `locks/NAME`, `jobs/NAME`, `pools/NAME`, "
            "`exports/NAME`; `*` stands for any characters."
        ),
    ),
]
Issuer = Annotated[
    str | None,
    typer.Option(
        "--issuer",
        help="The `iss` of its tokens; its keys are found by it (OpenID Connect Discovery).",
    ),
]
Audience = Annotated[
    str | None,
    typer.Option(
        "--audience",
        help=(
            "The `aud` that its tokens must name. Left out, it is the tenant's own "
            "(`token_audience`); another needs a proof, else 422 `issuer-unproved`."
        ),
    ),
]
Algorithms = Annotated[
    list[str] | None, typer.Option("--algorithm", help="The algorithms that may sign its tokens.")
]
TenantDisplayName = Annotated[str | None, typer.Option("--display-name", help="A name for people.")]
TenantState = Annotated[
    str | None,
    typer.Option(
        "--state",
        help=(
            "The credentials of a `suspended` tenant are refused; its data stays. One of `active`"
            " and `suspended`. Default: active."
        ),
    ),
]
FirstOwner = Annotated[
    str | None,
    typer.Option(
        "--owner",
        metavar="NAME",
        help=(
            "The first client, an owner that is made with the tenant. It counts only in that "
            "request. Its secret is shown only once."
        ),
    ),
]
Weight = Annotated[
    float | None,
    typer.Option(
        "--weight", help="The tenant's share where tenants compete. Default: 1.", max=1000
    ),
]
ExportTopic = Annotated[
    str | None,
    typer.Option(
        "--topic",
        help=(
            "A topic, or a pattern: `*` stands for any characters, also of topics that are "
            "created later."
        ),
        autocompletion=topic_names,
    ),
]
ExportTable = Annotated[
    str | None,
    typer.Option(
        "--table",
        help=(
            "The name of the table in the lake, among those of this tenant. Left out, it is the "
            "name of the export in small letters, with `_` for other characters than letters and "
            "digits."
        ),
    ),
]
Lake = Annotated[
    str | None, typer.Option("--lake", help="A lake of the installation. Default: default.")
]
ExportFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        help=(
            "`parquet`: plain files without a table's snapshots, each message at least once. One "
            "of `iceberg` and `parquet`. Default: iceberg."
        ),
    ),
]
ExportBody = Annotated[
    str | None,
    typer.Option(
        "--body",
        help=(
            "The form of the bodies, from which columns are made. One of `json`, `avro` and "
            "`raw`. Default: json."
        ),
    ),
]
ExportStart = Annotated[
    str | None,
    typer.Option(
        "--start",
        help=(
            "`earliest`, `latest` or a time (RFC 3339): messages that were published before are "
            "not exported. Default: earliest. An age such as `2d` is a time too."
        ),
    ),
]
PartitionBy = Annotated[
    str | None,
    typer.Option(
        "--partition-by",
        help=(
            "The part of the publish time by which the table is partitioned. One of `hour`, `day`"
            " and `none`. Default: day."
        ),
    ),
]
KeyBuckets = Annotated[
    int | None,
    typer.Option(
        "--key-buckets",
        help="The number of buckets of keys by which the table is partitioned too; 0 is none.",
        min=0,
        max=1024,
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="FIELD=TYPE",
        help=(
            "Types of body fields that are given rather than found out: string, boolean, long, "
            "double, timestamp, date, binary, decimal(p,s). An example is `amount=decimal(10,2)`;"
            " the option may be repeated."
        ),
    ),
]
KeepData = Annotated[
    bool | None,
    typer.Option(
        "--keep-data/--no-keep-data",
        help="Whether the table also has the bodies as they were published.",
    ),
]
ExportFilter = Annotated[
    str | None,
    typer.Option(
        "--filter", help="A CEL expression; messages that it does not match are not exported."
    ),
]
ExportCron = Annotated[
    str | None,
    typer.Option(
        "--cron",
        help=(
            "Minute, hour, day of month, month, day of week; or @hourly, @daily, @weekly, "
            "@monthly, @yearly. Null: it runs on demand."
        ),
    ),
]
ExportTimeZone = Annotated[
    str | None, typer.Option("--time-zone", help="A name of the IANA time zone database.")
]
ExportMissedRuns = Annotated[
    str | None,
    typer.Option(
        "--missed-runs",
        help=(
            "The rule for runs that could not be made in their minute: none is made, or one for "
            "all of them. The next run exports their messages in either case. One of `skip` and "
            "`latest`."
        ),
    ),
]
MaintainCron = Annotated[
    str | None,
    typer.Option(
        "--maintain-cron",
        help=(
            "The times at which the table is maintained. Null: on demand. Left out: `@daily` of "
            "the format iceberg, and null of others, which have nothing to maintain."
        ),
    ),
]
MaxBytesPerSecond = Annotated[
    int | None,
    typer.Option(
        "--max-bytes-per-second",
        help="The limit of bytes that runs read.",
        min=1,
        max=1000000000000,
    ),
]
