"""The text that `packetboat up` prints when everything is ready."""

from __future__ import annotations

import enum
from pathlib import Path

from packetboat.extras import EXPORTS


class Exports(enum.Enum):
    """The state of exports here."""

    RUN = "run"
    NOT_INSTALLED = "not-installed"
    OFF = "off"


def client_env(url: str, token: str) -> str:
    """Two lines a shell can eval."""
    return f"export PACKETBOAT_URL={url}\nexport PACKETBOAT_TOKEN={token}\n"


def banner(
    url: str, token: str, data_dir: Path, operator_file: Path | None, exports: Exports
) -> str:
    """`operator_file` has the first operator's credential; None where none was made here."""
    operator = f"The operator's credential is in {operator_file}.\n" if operator_file else ""
    lake = {
        Exports.RUN: f"Exports run here, into tables in {data_dir / 'lake'}.\n",
        Exports.NOT_INSTALLED: f"Exports wait until Spark is here: {EXPORTS}\n",
        Exports.OFF: "",
    }[exports]
    auth = f"-H 'Authorization: Bearer {token}'"
    return f"""
Packetboat is up at {url}  (the API: {url}/docs)
Everything it keeps is in {data_dir}; logs are in {data_dir / "logs"}. Ctrl-C stops it.
{operator}{lake}
Make a topic and a subscription, publish, pull, ack:

curl -s {auth} {url}/topics -d '{{"name":"greetings"}}'
curl -s {auth} {url}/topics/greetings/subscriptions -d '{{"name":"reader","start":"earliest"}}'
curl -s {auth} {url}/topics/greetings/messages -H 'Content-Type: text/plain' -d 'hello, world'
MESSAGES=$(curl -s {auth} '{url}/subscriptions/reader/messages?wait_seconds=5'); echo "$MESSAGES"
ACK_ID=$(echo "$MESSAGES" | sed 's/.*"ack_id":"\\([^"]*\\)".*/\\1/')
curl -s {auth} {url}/subscriptions/reader/ack -d '{{"ack_id":"'"$ACK_ID"'"}}'

In another terminal, `make demo` shows it at work. For your own programs:

{client_env(url, token).rstrip()}"""
