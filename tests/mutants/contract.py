"""Mutants of the contract of the API, and of how bodies are read by it."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

_PATCHES = "tests/unit/gateway/test_merge_patch.py"
MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a change of a subscription leaves its plain settings as they were",
        (
            Edit(
                "gateway/subscriptions/bodies.py",
                "        **fields_of(contract.PlainSettings, body),\n",
                "",
            ),
        ),
        breaks="P8",
        killed_by="tests/unit/metadata/test_plain_settings.py"
        "::test_plain_settings_go_from_the_body_to_the_answer",
    ),
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
                "field.name in put.FIXED and field.default is UNSET",
                "False",
            ),
        ),
        breaks="P8",
        killed_by=f"{_PATCHES}::test_a_patch_has_the_limits_and_the_descriptions_of_the_put",
    ),
    Mutant(
        "a choice may have several members",
        (
            Edit(
                "openapi/contract.py",
                "sum(map(self._is_given, self.EXACTLY_ONE)) != 1:",
                "not any(map(self._is_given, self.EXACTLY_ONE)):",
            ),
        ),
        breaks="P8",
        killed_by="tests/unit/gateway/test_subscription_bodies.py::test_what_does_not_fit_is_named",
    ),
    Mutant(
        "a push that stays is held to the rules of today",
        (
            Edit(
                "gateway/subscriptions/bodies.py",
                "    if spec.push is not None and body.push == push_put(spec.push):\n",
                "    if False:\n",
            ),
        ),
        breaks="P8",
        killed_by="tests/unit/gateway/test_push_bodies.py"
        "::test_a_push_that_stays_is_not_held_to_newer_rules",
        fails_with="edge.problem.Problem",
    ),
)
