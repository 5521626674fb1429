"""The parts of `packetboat.models` for messages, subscriptions and what belongs to them."""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from openapi import (
    common,
    consume,
    dead_letters,
    flow,
    positions,
    publish,
    push,
    subscriptions,
    topics,
    webhooks,
)
from openapi.sdk.models import Keywords, Model, Module

SENT = {
    "data": "Bytes are sent as they are, text as UTF-8, anything else as JSON.",
    "traceparent": "The W3C trace context; None stands for that of the active span of "
    "OpenTelemetry, if there is one.",
}
NO_DATA = msgspec.Raw()
CONTENT = Model(
    common.Message,
    methods="Readable",
    options="kw_only=True",
    without=("message_id", "publish_time", "partition", "offset"),
    types={"data": "msgspec.Raw", "data_base64": "bytes | None"},
    defaults={"data": NO_DATA, "attributes": {}, "priority": 0},
    texts={
        "data": "JSON as JSON, text as a JSON string; `body`, `text` and `json()` read it.",
        "data_base64": "Any other body, decoded.",
    },
    doc="The content of a message, which is the same however you get the message.",
)
DEAD_LETTER = Model(
    dead_letters.DeadLetter,
    options="kw_only=True",
    doc="A message whose attempts are used up, or that a consumer rejected.",
)
SIGNING_SECRET = Model(
    webhooks.SigningSecret,
    doc="A secret that signs requests to an endpoint, without its value.",
)

MESSAGES = Module(
    "Messages: as you publish, receive, settle and look them up.",
    (
        Model(
            publish.BatchItem,
            options="kw_only=True",
            without=("data_base64",),
            always=("data",),
            types={"data": "Data"},
            texts=SENT,
            doc="A message to publish in a batch. Give `deliver_at`, with a zone, or "
            "`delay_seconds`.",
        ),
        Model(
            publish.Receipt,
            always=("offset", "publish_time"),
            defaults={"duplicate": False},
        ),
        CONTENT,
        Model(
            consume.Delivery,
            base=CONTENT,
            options="kw_only=True",
            always=("ack_id",),
            defaults={"attempt": 1},
            doc="A leased message: ack it before its deadline, or it is delivered again.",
        ),
        Model(
            topics.StoredMessage,
            base=CONTENT,
            options="kw_only=True",
            defaults={"state": "published"},
        ),
        Model(
            topics.DelayedMessage,
            always=("key",),
            defaults={"size_bytes": 0, "priority": 0},
            doc="A message that waits for its time.",
        ),
        Model(
            topics.Replayed,
            always=("messages",),
            types={"messages": "tuple[StoredMessage, ...]"},
            doc="Messages of a partition, in the order of their offsets.",
        ),
        Model(
            topics.PartitionOffsets,
            doc="Offsets of a partition.",
        ),
        Model(topics.AckState, doc="The state of a message in one subscription."),
        Model(
            consume.Output,
            options="kw_only=True",
            without=("data_base64",),
            always=("data",),
            types={"data": "Data"},
            texts=SENT,
            doc="A message to publish with an ack: consumers see it if and only if the ack is "
            "committed.",
        ),
        Model(consume.ItemFailure, methods="Failure", defaults={"detail": ""}),
    ),
    {
        "Durability": publish.Durability,
        "EarlyDurability": publish.EarlyDurability,
    },
)
POSITIONS = Module(
    "Moves of a subscription, and snapshots of it.",
    (
        Model(positions.SoughtPartition, doc="The offset from which a partition is read now."),
        Model(
            positions.Sought,
            always=("partitions",),
            defaults={"dry_run": False},
            doc="The place that a subscription was moved to, or would be.",
        ),
        Model(
            positions.Snapshot,
            doc="The messages that a subscription had not acked.",
        ),
    ),
)
PUSH = Module(
    "Endpoints of subscriptions of type push, and the requests to them.",
    (
        Model(webhooks.PushToken),
        Model(webhooks.Push, options="kw_only=True, omit_defaults=True"),
        SIGNING_SECRET,
        Model(webhooks.NewSigningSecret, base=SIGNING_SECRET),
        Model(
            webhooks.SigningSecrets,
            etag=True,
            always=("signing_secrets",),
            doc="The secrets that sign requests now, the newest first.",
        ),
        Model(
            webhooks.PushView,
            defaults_of=webhooks.Push,
            defaults={
                "headers": {},
                "signing": (),
                "signing_secrets": (),
                "disable_after_seconds": None,
            },
        ),
        Model(push.PushEndpointState, doc="The state of an endpoint."),
        Model(push.PushStatus),
        Model(
            push.PushAttempt,
            defaults={"response_excerpt": ""},
            doc="One message of one request to an endpoint.",
        ),
        Model(
            push.PushTest,
            defaults={"response_excerpt": ""},
            doc="The answer of an endpoint to a sample.",
        ),
        Model(push.NotReplayed, doc="A message that was not delivered once more."),
        Model(push.PushReplayed, doc="The number of messages that are delivered once more."),
    ),
    {"PushFormat": webhooks.PushFormat, "SigningKind": webhooks.SigningKind},
)
SUBSCRIPTIONS = Module(
    "Subscriptions, with their parts and states.",
    (
        Model(subscriptions.RetryPolicy, types={"on_exhausted": "str"}),
        Model(subscriptions.RateLimit),
        Keywords(
            "SubscriptionChanges",
            subscriptions.SubscriptionPut,
            "Fields of a subscription that may be changed; the others stay.",
            without=subscriptions.SubscriptionPut.FIXED,
        ),
        Keywords(
            "SubscriptionSettings",
            subscriptions.SubscriptionCreate,
            "Fields of a new subscription; the others get the server's defaults.",
            only=("delivery", "ordered", "start"),
            base="SubscriptionChanges",
            types={"start": "Position"},
        ),
        Model(
            subscriptions.Subscription,
            etag=True,
            defaults_of=subscriptions.SubscriptionCreate,
            always=(
                "name",
                "topic",
                "type",
                "delivery",
                "ack_deadline_seconds",
                "retry",
                "start",
            ),
            defaults={"state": "active"},
            types={"start": "Any"},
        ),
        Model(consume.StreamTicket),
        Model(positions.SubscriptionState, doc="The state of a subscription after a change of it."),
        Model(flow.Flow, defaults={"reason": ""}, doc="Limits that a consumer asked for."),
        Model(
            subscriptions.SkipRule,
            doc="A rule that settles the messages for which its expression is true.",
        ),
        Model(
            subscriptions.SkipRules,
            always=("skip_rules",),
            defaults={"skipped": 0},
            doc="The skip rules of a subscription.",
        ),
    ),
)
BACKLOG = Module(
    "Backlogs of subscriptions, and the accounts of their messages.",
    (
        Model(
            flow.Throttle,
            defaults={"reason": ""},
            doc="A limit that slows a subscription now, beside its own settings.",
        ),
        Model(subscriptions.PartitionBacklog),
        Model(
            subscriptions.Backlog,
            always=("partitions",),
            defaults={"waiting_pulls": 0, "streams": 0, "forwarders": 0},
            doc="The messages of a subscription that wait.",
        ),
        Model(subscriptions.CursorBooks),
        Model(
            subscriptions.Reconciliation,
            always=("partitions",),
            doc="The answer whether every message is accounted for.",
        ),
    ),
)
DEAD_LETTERS = Module(
    "Dead letters, their redrives, and parked keys.",
    (
        DEAD_LETTER,
        Model(
            dead_letters.DeadLetterWithMessage,
            base=DEAD_LETTER,
            options="kw_only=True",
        ),
        Model(dead_letters.Undelivered, defaults={"messages": 0}),
        Model(
            dead_letters.DeadLetterPage,
            names={"dead_letters": "items"},
            defaults={"examined": 0, "undelivered": dead_letters.Undelivered},
            doc="A page of dead letters; `next_page_token` is None on the last.",
        ),
        Model(dead_letters.Discarded, doc="The number of dead letters that were discarded."),
        Model(
            dead_letters.RedriveEdit,
            options="kw_only=True",
            without=("data_base64",),
            types={"data": "Data | msgspec.UnsetType", "key": "str | msgspec.UnsetType | None"},
            defaults={"data": UNSET, "key": UNSET},
            texts={"data": "The new body."},
        ),
        Model(
            dead_letters.Redrive, methods="Redriving", doc="Dead letters that are published again."
        ),
        Model(dead_letters.DryRun, doc="The dead letters that a redrive would publish."),
        Model(
            dead_letters.ParkedKey,
            doc="A key that waits because its first message failed for good.",
        ),
    ),
)
PARTS = {
    "messages": MESSAGES,
    "positions": POSITIONS,
    "push": PUSH,
    "subscriptions": SUBSCRIPTIONS,
    "backlog": BACKLOG,
    "dead_letters": DEAD_LETTERS,
}
