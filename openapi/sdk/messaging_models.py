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
)
SIGNING_SECRET = Model(
    webhooks.SigningSecret,
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
        ),
        Model(
            topics.Replayed,
            always=("messages",),
            types={"messages": "tuple[StoredMessage, ...]"},
        ),
        Model(topics.PartitionOffsets),
        Model(topics.AckState),
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
        Model(positions.SoughtPartition),
        Model(
            positions.Sought,
            always=("partitions",),
            defaults={"dry_run": False},
        ),
        Model(positions.Snapshot),
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
        Model(push.PushEndpointState),
        Model(push.PushStatus),
        Model(
            push.PushAttempt,
            defaults={"response_excerpt": ""},
        ),
        Model(
            push.PushTest,
            defaults={"response_excerpt": ""},
        ),
        Model(push.NotReplayed),
        Model(push.PushReplayed),
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
        Model(positions.SubscriptionState),
        Model(flow.Flow, defaults={"reason": ""}),
        Model(subscriptions.SkipRule),
        Model(
            subscriptions.SkipRules,
            always=("skip_rules",),
            defaults={"skipped": 0},
        ),
    ),
)
BACKLOG = Module(
    "Backlogs of subscriptions, and the accounts of their messages.",
    (
        Model(
            flow.Throttle,
            defaults={"reason": ""},
        ),
        Model(subscriptions.PartitionBacklog),
        Model(
            subscriptions.Backlog,
            always=("partitions",),
            defaults={"waiting_pulls": 0, "streams": 0, "forwarders": 0},
        ),
        Model(subscriptions.CursorBooks),
        Model(
            subscriptions.Reconciliation,
            always=("partitions",),
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
        ),
        Model(dead_letters.Discarded),
        Model(
            dead_letters.RedriveEdit,
            options="kw_only=True",
            without=("data_base64",),
            types={"data": "Data | msgspec.UnsetType", "key": "str | msgspec.UnsetType | None"},
            defaults={"data": UNSET, "key": UNSET},
            texts={"data": "The new body."},
        ),
        Model(dead_letters.Redrive, methods="Redriving"),
        Model(dead_letters.DryRun),
        Model(dead_letters.ParkedKey),
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
