"""Resources of the SDK: topics and snapshots."""

from __future__ import annotations

from openapi.sdk.methods import Area, Given, Method
from openapi.sdk.work import GET, LIST, UPDATE

FORCE = "unless `force` is true"

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
                Given("topic", name="name"),
                Given("definition", kind="object", default="None"),
                Given("messages", kind="int", default="100"),
            ),
            safe="True",
        ),
    ),
    named={"topic": "name"},
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
            given=(
                Given("name", name="name"),
                Given("expires_in_seconds", kind="int | None", default="None"),
            ),
        ),
        Method("get", "getSnapshot", f"Return the snapshot. {GET}"),
        Method("list", "listSnapshots", LIST),
        Method(
            "delete",
            "deleteSnapshot",
            "Delete the snapshot; messages that nothing else keeps may go.",
        ),
    ),
)

AREAS = (TOPICS,)
