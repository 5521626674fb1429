"""Resources of the SDK: topics, subscriptions, snapshots, webhooks, dead letters, parked keys."""

from __future__ import annotations

from openapi.sdk.methods import Area, Given, Method
from openapi.sdk.work import GET, LIST, UPDATE

FORCE = "unless `force` is true"
NOT_FOUND = "Raise NotFound where there is none of this id."
NO_SECRET = 'settings.get("push") is None'
"""The answer for a new endpoint tells its secrets once, so such a request is not sent again."""
ENDPOINT_SECONDS = "600.0"
"""The time that an endpoint may take to answer, at most."""
REDRIVE = (
    Given("to", kind="str | None", default="None"),
    Given("edit", kind="Edit | None", default="None", encoded="edited"),
)

TOPICS = Area(
    "topics",
    "Topics",
    "Topics, and the places of their partitions.",
    (
        Method(
            "create",
            "createTopic",
            "Create a topic, and return when every partition is there. Raise Conflict where the "
            "name is taken.",
            settings="TopicSettings",
        ),
        Method("get", "getTopic", f"Return the topic. {GET}"),
        Method("list", "listTopics", LIST),
        Method(
            "put",
            "putTopic",
            "Create the topic, or change it to this; fields that are not given get their defaults. "
            "`if_match` is the etag of the topic that you want to change. Raise Conflict where the "
            "topic has another.",
            settings="TopicSettings",
        ),
        Method(
            "update",
            "patchTopic",
            f"{UPDATE} Every process knows the change within 2 s.",
            settings="TopicChanges",
        ),
        Method(
            "delete",
            "deleteTopic",
            "Delete the topic with its messages and subscriptions. Raise Conflict while something "
            f"would be lost (`holds` lists it), {FORCE}.",
        ),
        Method(
            "holds",
            "listTopicHolds",
            "Return the reasons not to delete it: unacked and delayed messages, messages that an "
            "export has not taken, snapshots, open dead letters.",
        ),
        Method(
            "grow",
            "growTopic",
            "Give the topic more partitions; `partitions` is the number afterwards, never fewer "
            "than now. Publishing goes on; `placement` of the answer is None when it is done.",
            safe="True",
        ),
        Method(
            "partitions",
            "listPartitions",
            "Return the places of its partitions, and a move or growth that is under way.",
        ),
        Method(
            "move",
            "movePartition",
            "Move a partition to another group of store nodes. Publishing goes on, in order.",
        ),
        Method(
            "preview_filter",
            "previewTopicFilter",
            "Try a CEL expression on the most recent messages, up to 10,000.",
            given=(
                Given("filter", name="expression"),
                Given("messages", kind="int", default="1000"),
            ),
            safe="True",
        ),
        Method(
            "preview_schema",
            "previewSchema",
            "Count the newest messages, up to 1,000, that fit a schema, which you name or give.",
            positional=("schema",),
            given=(
                Given("definition", kind="object", default="None"),
                Given("messages", kind="int", default="100"),
            ),
            safe="True",
        ),
    ),
    named={"topic": "name"},
    calls="messaging",
)

MESSAGES = Area(
    "messages",
    "Messages",
    "Single messages of a topic, and reads of its partitions.",
    (
        Method(
            "get",
            "getMessage",
            "Return the message as it is stored, also when it is not published yet. " + NOT_FOUND,
        ),
        Method(
            "delayed",
            "listDelayedMessages",
            "Iterate over the messages that wait for their time, page by page: by partition, and "
            "there in the order in which they were accepted.",
            page="delayed_page",
        ),
        Method(
            "cancel",
            "cancelMessage",
            "Never publish a delayed message. Raise Conflict if it is published already; "
            "cancelling it twice is no error.",
            safe="True",
        ),
        Method(
            "reschedule",
            "rescheduleMessage",
            "Change the time of a delayed message, and return it. Give one of the two; "
            "`deliver_at` has a zone. Raise Conflict if it is published already.",
            member="scheduled_for",
        ),
        Method(
            "ack_states",
            "getMessageAck",
            "Return the state of the message in each subscription, by its name.",
        ),
        Method(
            "offsets",
            "offsetsOfPartition",
            "Return the offset of a time, which has a zone, in a partition.",
            given=(Given("lane", kind="int | None", default="None"),),
        ),
    ),
    named={"id": "message_id"},
    calls="messaging",
    base=True,
)

SNAPSHOTS = Area(
    "snapshots",
    "Snapshots",
    "Snapshots of the messages that a subscription had not acked.",
    (
        Method(
            "create",
            "createSnapshot",
            "Take a snapshot, which is kept for a week unless `expires_in_seconds` is given, and "
            "with it the messages. Raise Conflict where the name is taken. Go back to it by "
            '`subscriptions.seek(name, {"snapshot": …})`.',
            named={"name": "subscription"},
            given=(Given("expires_in_seconds", kind="int | None", default="None"),),
        ),
        Method("get", "getSnapshot", f"Return the snapshot. {GET}"),
        Method("list", "listSnapshots", LIST),
        Method(
            "delete",
            "deleteSnapshot",
            "Delete the snapshot; messages that nothing else keeps may go.",
        ),
    ),
    calls="messaging",
)

SUBSCRIPTIONS = Area(
    "subscriptions",
    "Subscriptions",
    "Subscriptions: create, change, move and pause them, and look at their backlog.",
    (
        Method(
            "create",
            "createSubscription",
            "Create a subscription; with `push` it is one of type push, and only this answer has "
            "the signing secrets. Raise Conflict where the name is taken, in any topic.",
            settings="SubscriptionSettings",
            body="subscription_body",
        ),
        Method("get", "getSubscription", f"Return the subscription. {GET}"),
        Method(
            "list",
            "listTopicSubscriptions",
            "Iterate over those of a topic, or over all there are, page by page.",
            own="listSubscriptions",
        ),
        Method(
            "put",
            "putSubscription",
            "Create the subscription, which needs `topic`, or change it to this; fields that are "
            "not given get their defaults, but for topic, delivery, order and start, which cannot "
            "be changed.",
            settings="SubscriptionSettings",
            fields=("topic",),
            body="subscription_body",
            safe=NO_SECRET,
        ),
        Method(
            "update",
            "patchSubscription",
            f"{UPDATE} The change holds within 2 s, and leased messages stay leased.",
            settings="SubscriptionChanges",
            body="subscription_body",
            safe=NO_SECRET,
        ),
        Method(
            "delete",
            "deleteSubscription",
            "Delete the subscription with its ack state. Raise Conflict while something would be "
            f"lost (`holds` lists it), {FORCE}.",
        ),
        Method(
            "holds",
            "listSubscriptionHolds",
            "Return the reasons not to delete it: unacked messages, delayed ones, open dead "
            "letters.",
        ),
        Method(
            "stream_ticket",
            "createStreamTicket",
            "Return a ticket for a browser's EventSource, which opens the subscription's stream "
            "for a minute. Raise NotFound where the installation gives none.",
            safe="True",
        ),
        Method(
            "pause",
            "pause",
            "Deliver nothing until it is resumed; acks are taken.",
            positional=("reason",),
            bodyless=True,
            safe="True",
        ),
        Method(
            "resume",
            "resume",
            "Deliver messages again.",
            positional=("reason",),
            bodyless=True,
            safe="True",
        ),
        Method(
            "drain",
            "drain",
            "Deliver again only messages that were delivered before.",
            positional=("reason",),
            bodyless=True,
            safe="True",
        ),
        Method(
            "seek",
            "seek",
            "Move the subscription; with `dry_run` say where it would be, and change nothing.",
            given=(Given("to", kind="Position", encoded="position"),),
            safe="dry_run",
        ),
        Method("backlog", "getBacklog", "Return the messages that wait, by partition."),
        Method(
            "reconciliation",
            "getReconciliation",
            "Ask whether every message is accounted for, by the states that are committed.",
        ),
        Method(
            "preview_filter",
            "previewSubscriptionFilter",
            "Try a CEL expression on the most recent messages, up to 10,000, and compare it with "
            "the present filter.",
            given=(
                Given("filter", name="expression"),
                Given("messages", kind="int", default="1000"),
            ),
            safe="True",
        ),
        Method(
            "skip_rules",
            "listSkipRules",
            "Return the rules that hold; with `removed` also those that were removed.",
        ),
        Method(
            "add_skip_rule",
            "addSkipRule",
            "Settle messages for which the CEL expression is true instead of delivering them, "
            "also those that wait. `reason` is for readers of the audit.",
        ),
        Method(
            "remove_skip_rule",
            "removeSkipRule",
            "Remove a rule by its id; skipped messages stay skipped. Removing it twice is no "
            "error.",
            safe="True",
        ),
        Method(
            "say_flow",
            "sayFlow",
            "Say how much its consumers can take now, all together, for `ttl_seconds` (60 unless "
            "given). A rate of 0 messages a second stops deliveries.",
            safe="True",
        ),
        Method("flow", "getFlow", "Return the flow that was said, if it still holds."),
        Method("end_flow", "endFlow", "Take back the flow that was said.", safe="True"),
    ),
    calls="messaging",
    base=True,
)

WEBHOOKS = Area(
    "webhooks",
    "Webhooks",
    "Push subscriptions: attempts, tests, replay, and signing secrets.",
    (
        Method(
            "attempts",
            "listPushAttempts",
            "Iterate over requests to the endpoint, the newest first. The newest 1,000 of 7 days "
            "are kept.",
            page="attempts_page",
        ),
        Method(
            "test",
            "testPushEndpoint",
            "Send a sample to the endpoint now, and return its answer.",
            waits=ENDPOINT_SECONDS,
        ),
        Method(
            "replay",
            "replayToEndpoint",
            "Deliver settled messages once more: these, or those published from `since` to "
            "`until`, which have a zone. Raise UnknownOutcome where it is open which are.",
            positional=("message_ids",),
            given=(Given("max_messages", kind="int | None", default="None"),),
        ),
        Method(
            "enable",
            "enablePushEndpoint",
            "Deliver to a disabled endpoint again; the backlog comes first.",
            safe="True",
            waits=ENDPOINT_SECONDS,
        ),
        Method(
            "verify",
            "verifyPushEndpoint",
            "Send the endpoint a challenge now.",
            safe="True",
            waits=ENDPOINT_SECONDS,
        ),
        Method(
            "signing_secrets",
            "listSigningSecrets",
            "Return the secrets that sign requests now, without their values.",
            whole=True,
        ),
        Method(
            "create_signing_secret",
            "createSigningSecret",
            "Add a secret that signs at once, beside the earlier ones of its kind for "
            "`expires_previous_after_seconds` (a day unless given). `secret` of the answer is "
            "shown once.",
            given=(Given("kind", kind="SigningKind | None", default="None"),),
            untagged=True,
        ),
        Method(
            "delete_signing_secret",
            "deleteSigningSecret",
            "Delete a secret by its id; it signs nothing from now on. Raise Conflict for the last "
            "one.",
        ),
    ),
    named={"name": "subscription", "signing_secret": "secret"},
    calls="messaging",
)

DEAD_LETTERS = Area(
    "dead_letters",
    "DeadLetters",
    "Dead letters of a subscription, and redriving them.",
    (
        Method(
            "list",
            "listDeadLetters",
            "Iterate over dead letters, the oldest first, and over open ones unless `state` is "
            "given. `filter` is a CEL expression over reason, detail, attempts, key, attributes "
            "and more.",
            result="DeadLetterPage",
        ),
        Method("get", "getDeadLetter", "Return the dead letter with its message. " + NOT_FOUND),
        Method(
            "discard",
            "discardDeadLetters",
            "Discard dead letters, by their ids or by a filter; give one of the two. Ask again "
            "where the answer is not `complete`.",
            safe="ids is not None",
        ),
        Method(
            "redrive",
            "redriveDeadLetters",
            "Publish dead letters again, at most `rate` messages a second: these, those for which "
            "the filter is true, or all open ones. They go to the subscription alone, or to the "
            "topic `to`, changed by `edit`. Return when the redrive has begun; `get_redrive` "
            "tells how far it is.",
            given=REDRIVE,
            left_out=("dry_run",),
        ),
        Method(
            "redrive_dry_run",
            "redriveDeadLetters",
            "Say which dead letters `redrive` would publish again.",
            call="redrive_dry_run",
            given=REDRIVE,
            left_out=("rate",),
            constant={"dry_run": "True"},
            result="DryRun",
            safe="True",
        ),
        Method(
            "redrives",
            "listRedrives",
            "Iterate over redrives, the newest first.",
            page="redrives_page",
        ),
        Method("get_redrive", "getRedrive", "Return how far a redrive is. " + NOT_FOUND),
        Method(
            "cancel_redrive",
            "cancelRedrive",
            "Redrive no more of its dead letters.",
            safe="True",
        ),
    ),
    named={"name": "subscription"},
    calls="messaging",
)

PARKED_KEYS = Area(
    "parked_keys",
    "ParkedKeys",
    "Parked keys of ordered subscriptions.",
    (
        Method(
            "list",
            "listParkedKeys",
            "Return the keys whose first message failed for good, with the number of messages "
            "that wait behind it.",
        ),
        Method(
            "resume",
            "resumeParkedKey",
            "Deliver the messages of the key again, and return the number of keys resumed.",
        ),
        Method(
            "skip",
            "skipParkedKey",
            "Give up the first message of the key, as a dead letter if `dead_letter` is true, and "
            "return the number of keys resumed.",
        ),
    ),
    named={"name": "subscription"},
    calls="messaging",
)

AREAS = (TOPICS, MESSAGES, SUBSCRIPTIONS, SNAPSHOTS, WEBHOOKS, DEAD_LETTERS, PARKED_KEYS)
