"""The two snippets of the source document, as they stand there: only host, scheme and token differ.

The text between the markers is the document's own, with `https://mq.example.com` and
`Bearer <token>` replaced; the second snippet sends no token in it, so the session default does.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from tests.e2e.installation import Installation

PUBLISH = '''
import requests

def publish_message(topic: str, message: dict):
    """Publish message to topic with acknowledgment handling"""
    response = requests.post(
        f"https://mq.example.com/topics/{topic}/messages",
        json=message,
        headers={"Authorization": "Bearer <token>"}
    )

    if response.status_code == 201:
        ack_data = response.json()
        message_id = ack_data["message_id"]
        print(f"Message {message_id} acknowledged")
        return message_id
    else:
        raise Exception(f"Failed to publish: {response.text}")
'''

CONSUME = '''
def consume_messages(subscription_id: str, max_messages: int = 10):
    """Pull messages from subscription"""
    response = requests.get(
        f"https://mq.example.com/subscriptions/{subscription_id}/messages",
        params={"max_messages": max_messages}
    )

    messages = response.json()["messages"]

    for msg in messages:
        try:
            # Process message
            process_message(msg)
            # Acknowledge successful processing
            ack_message(subscription_id, msg["message_id"])
        except Exception as e:
            print(f"Failed to process message {msg['message_id']}: {e}")

def ack_message(subscription_id: str, message_id: str):
    """Acknowledge message consumption"""
    requests.post(
        f"https://mq.example.com/subscriptions/{subscription_id}/ack",
        json={"message_id": message_id}
    )
'''


@pytest.fixture
def snippets(running: Installation) -> dict[str, Any]:
    """Return the functions of both snippets, with `requests` sending the token by default."""
    source = (PUBLISH + CONSUME).replace("https://mq.example.com", running.url)
    source = source.replace("Bearer <token>", f"Bearer {running.token}")
    names: dict[str, Any] = {}
    exec(compile(source, "004", "exec"), names)  # noqa: S102
    names["requests"] = running.session()
    return names


def test_publish_consume_ack(running: Installation, snippets: dict[str, Any]) -> None:
    http, topic = running.session(), f"payments-{uuid.uuid4().hex[:8]}"
    assert http.post(f"{running.url}/topics", json={"name": topic}).status_code == 201
    subscription = f"fraud-{topic}"
    created = http.post(
        f"{running.url}/topics/{topic}/subscriptions",
        json={"name": subscription, "start": "earliest"},
    )
    assert created.status_code == 201, created.text

    sent = [{"payment": number, "text": "päckchen"} for number in range(5)]
    ids = [snippets["publish_message"](topic, message) for message in sent]
    assert len(set(ids)) == 5

    seen: list[dict[str, Any]] = []
    snippets["process_message"] = seen.append
    for _ in range(10):
        snippets["consume_messages"](subscription)
        if len(seen) >= 5:
            break
    assert sorted(json.dumps(m["data"]) for m in seen) == sorted(json.dumps(m) for m in sent)
    assert {m["message_id"] for m in seen} == set(ids)
    state = http.get(f"{running.url}/topics/{topic}/messages/{ids[0]}/ack").json()
    assert state["subscriptions"][subscription]["state"] == "acked"
    again = http.get(f"{running.url}/subscriptions/{subscription}/messages").json()
    assert again["messages"] == []


def test_a_refused_publish_raises_with_the_text(snippets: dict[str, Any]) -> None:
    with pytest.raises(Exception, match="topic-not-found"):
        snippets["publish_message"]("no-such-topic", {})
