"""A fold of more outputs than one task should have: a nested job folds them in parts, whose results
are folded again."""

from __future__ import annotations

import msgspec

from packetboat.models.jobs import ClaimedTask, JobParent, JobSpec
from packetboat.tasks.definitions import FoldTask
from packetboat.tasks.nested import nested_name
from packetboat.tasks.outcomes import Nested
from packetboat.tasks.output_pages import OutputPages, ReadsOutputs

LABEL = "packetboat-fold"
"""On a job of parts: its outputs are lists of one value, or of none."""


class _Part(msgspec.Struct, frozen=True, omit_defaults=True):
    job: str
    first_index: int
    count: int | None = None
    lists: bool = False


_parts = msgspec.json.Decoder(_Part)


def in_parts(fold: FoldTask[object], task: ClaimedTask) -> bool:
    return (task.inputs_total or 0) > fold.fan_in


def parts_of(fold: FoldTask[object], task: ClaimedTask, pool: str) -> Nested:
    """The last part has all the rest, however many tasks failed."""
    firsts = range(0, task.inputs_total or 0, fold.fan_in)
    parts = [_Part(task.job, first, fold.fan_in, _has_lists(task)) for first in firsts]
    parts[-1] = msgspec.structs.replace(parts[-1], count=None)
    spec = JobSpec(
        map=fold.part_kind,
        reduce=fold.kind,
        pool=pool,
        reduce_pool=pool,
        parent=JobParent(task.job, task.index, "reduce"),
        labels={LABEL: "parts"},
    )
    name = nested_name(task.job, "reduce", task.index)
    return Nested(name, spec, [msgspec.Raw(msgspec.json.encode(part)) for part in parts])


def outputs_of_part(jobs: ReadsOutputs, task: ClaimedTask) -> OutputPages:
    """Return the outputs that a task reads which folds a part."""
    part = _parts.decode(task.input)
    return OutputPages(jobs, part.job, part.first_index, part.count, lists=part.lists)


def outputs_of(jobs: ReadsOutputs, task: ClaimedTask) -> OutputPages:
    """Return the outputs that a reduce task reads."""
    return OutputPages(jobs, task.job, lists=_has_lists(task))


def _has_lists(task: ClaimedTask) -> bool:
    return LABEL in task.labels
