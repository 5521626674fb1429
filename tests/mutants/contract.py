"""Mutants of the contract of the API, and of how bodies are read by it."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

_PATCHES = "tests/unit/gateway/test_merge_patch.py"
MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a patch lets go of the members of an object that it does not name",
        (
            Edit(
                "gateway/http/merge_patch.py",
                "    result = dict(before) if isinstance(before, Mapping) else {}\n",
                "    result: dict[str, Any] = {}\n",
            ),
        ),
        breaks="P8",
        killed_by=f"{_PATCHES}::test_null_is_null_or_the_default_of_the_put",
    ),
    Mutant(
        "a merged whole is not held to the limits of the put",
        (
            Edit(
                "gateway/http/merge_patch.py",
                "        (each.name, each.type | UnsetType, ",
                "        (each.name, Any, ",
            ),
        ),
        breaks="P8",
        killed_by=f"{_PATCHES}::test_the_whole_is_refused_where_it_does_not_fit",
    ),
    Mutant(
        "null is accepted for a field that cannot be changed",
        (
            Edit(
                "openapi/patch.py",
                "null=not field.required and field.name not in put.FIXED)",
                "null=not field.required)",
            ),
        ),
        breaks="P8",
        killed_by=f"{_PATCHES}::test_a_patch_has_the_limits_and_the_descriptions_of_the_put",
    ),
)
