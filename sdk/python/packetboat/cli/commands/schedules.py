"""`packetboat schedules …`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import File, Labels, Name, Set, body
from packetboat.cli.flags import Cron, MessageData, MessageKey, MissedRuns, ScheduleTopic, TimeZone
from packetboat.cli.invocation import Invocation
from packetboat.cli.nouns import Noun, add_common, add_verb
from packetboat.cli.shared_options import add, commands

app: typer.Typer = commands("schedules", "Publish messages at times.")
COLUMNS = ("name", "topic", "cron", "time_zone", "paused", "next_runs", "runs", "failure")
NOUN = Noun("schedules", "schedule", COLUMNS, "nightly")
add_common(app, NOUN)


@add(
    app,
    "create",
    example="packetboat schedules create nightly --topic jobs --cron '0 3 * * *' --data '{}'",
)
def create(
    context: typer.Context,
    name: Name,
    topic: ScheduleTopic = None,
    cron: Cron = None,
    data: MessageData = None,
    key: MessageKey = None,
    time_zone: TimeZone = None,
    missed_runs: MissedRuns = None,
    label: Labels = None,
    file: File = None,
    set_: Set = None,
) -> None:
    """Create a schedule."""
    here = Invocation.of(context)
    sets = [*_message(data, key), *(set_ or ())]
    wanted = body(
        file, sets, label, topic=topic, cron=cron, time_zone=time_zone, missed_runs=missed_runs
    )
    here.output.record(here.api.post("/schedules", {**wanted, "name": name}))


@add(app, "update", example="packetboat schedules update nightly --cron '30 3 * * *'")
def update(
    context: typer.Context,
    name: Name,
    cron: Cron = None,
    data: MessageData = None,
    key: MessageKey = None,
    time_zone: TimeZone = None,
    missed_runs: MissedRuns = None,
    label: Labels = None,
    file: File = None,
    set_: Set = None,
) -> None:
    """Change the given settings; the others stay."""
    here = Invocation.of(context)
    sets = [*_message(data, key), *(set_ or ())]
    wanted = body(file, sets, label, cron=cron, time_zone=time_zone, missed_runs=missed_runs)
    here.output.record(here.api.patch(path("schedules", name), wanted))


@add(app, "next", example="packetboat schedules next nightly --count 5")
def next_(
    context: typer.Context,
    name: Name,
    count: Annotated[int, typer.Option(help="Number of times to show.", min=1)] = 5,
) -> None:
    """Show the next times of a schedule."""
    here = Invocation.of(context)
    answer = here.api.get(path("schedules", name, "next"), count=count)
    here.output.rows([{"next_run": each} for each in answer["next_runs"]], "next_run")


add_verb(app, NOUN, "pause", "Stop a schedule until `resume`.")
add_verb(app, NOUN, "resume", "Start a paused schedule again.")
add_verb(app, NOUN, "run", "Publish the message now, in addition to the schedule.", safe=False)


def _message(data: Any, key: str | None) -> list[str]:
    found = [] if data is None else [f"message.data={data}"]
    return found if key is None else [*found, f"message.key={key}"]
