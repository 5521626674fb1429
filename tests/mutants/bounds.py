"""Mutants of the bounds on what one input may cost everybody else."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a body of very many values is read",
        (Edit("gateway/http/decoding.py", "    if bounded:\n", "    if False:\n"),),
        killed_by="tests/unit/gateway/test_decoding.py"
        "::test_a_body_of_very_many_values_is_refused_and_costs_little",
        breaks="P19",
    ),
    Mutant(
        "the end of a string is looked for from each of its quotes",
        (Edit("gateway/http/decoding.py", '(?:"|\\\\?\\Z)', '"'),),
        killed_by="tests/unit/gateway/test_decoding.py"
        "::test_a_body_of_very_many_values_is_refused_and_costs_little",
        fails_with="Failed",
        breaks="P19",
    ),
    Mutant(
        "values are counted in strings",
        (
            Edit(
                "gateway/http/decoding.py",
                ' or _within_bounds(_STRING.sub(b"", body))',
                "",
            ),
        ),
        killed_by="tests/unit/gateway/test_decoding.py::test_values_are_not_counted_in_strings",
        breaks="P19",
        fails_with="edge.problem.Problem",
    ),
)
