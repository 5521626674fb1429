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
        "the parts of an export that stay are held to the rules of today",
        (
            Edit(
                "gateway/exports/specs.py",
                "    return before is None or any(",
                "    return True or any(",
            ),
        ),
        breaks="P8",
        killed_by="tests/unit/gateway/test_export_specs.py"
        "::test_a_patch_does_not_judge_the_parts_that_stay_as_they_are",
        fails_with="edge.problem.Problem",
    ),
    Mutant(
        "a choice may have several members",
        (
            Edit(
                "openapi/contract.py",
                "self._given(self.EXACTLY_ONE) != 1:",
                "not self._given(self.EXACTLY_ONE):",
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
    Mutant(
        "a body that has one of several fields is not looked at",
        (
            Edit(
                "openapi/contract.py",
                "        if cls.EXACTLY_ONE or cls.AT_LEAST_ONE:",
                "        if cls.AT_LEAST_ONE:",
            ),
        ),
        breaks="P8",
        killed_by="tests/unit/gateway/test_subscription_bodies.py::test_what_does_not_fit_is_named",
    ),
    Mutant(
        "a request whose answer tells a secret once is sent again",
        (
            Edit(
                "openapi/sdk/calls.py",
                'operation.method in ("PUT", "PATCH") and len(classes) == 1',
                'operation.method in ("PUT", "PATCH")',
            ),
        ),
        breaks="P8",
        killed_by="tests/tidy/test_sdk_generated.py"
        "::test_a_change_whose_answer_tells_a_secret_is_not_sent_twice",
    ),
    Mutant(
        "a limit of null is the platform's default",
        (
            Edit(
                "gateway/tenancy/quota_bodies.py",
                "        if limit is not UNSET\n",
                "        if limit not in (UNSET, None)\n",
            ),
        ),
        breaks="P8",
        killed_by="tests/unit/gateway/test_tenancy_bodies.py"
        "::test_a_limit_that_a_body_leaves_out_is_the_platforms_and_null_is_none",
    ),
    Mutant(
        "a body that the SDK sends has other defaults than the contract",
        (
            Edit(
                "openapi/sdk/models.py",
                "    if _is_sent(model.kind):\n        return _sent_default(field)\n",
                "",
            ),
        ),
        breaks="P8",
        killed_by="tests/tidy/test_contract.py"
        "::test_a_model_of_a_request_has_the_defaults_of_the_contract",
    ),
    Mutant(
        "the SDK asks again a process that is not ready",
        (
            Edit(
                "openapi/sdk/calls.py",
                '    safe = "" if method.safe == "False" else ", safe=True"\n',
                '    safe = ", safe=True"\n',
            ),
        ),
        breaks="P8",
        killed_by="tests/tidy/test_sdk_generated.py"
        "::test_a_member_of_an_answer_may_be_the_result_or_nothing",
    ),
    Mutant(
        "a whole number with a fraction of zero is refused where an integer is wanted",
        (
            Edit(
                "edge/bodies.py",
                "                if not _WANTED_INTEGER.match(str(error)):\n",
                "                if True:\n",
            ),
        ),
        breaks="P8",
        killed_by="tests/unit/edge/test_bodies.py"
        "::test_a_whole_number_is_an_integer_however_it_is_written",
        fails_with="edge.problem.Problem",
    ),
    Mutant(
        "a body of the control plane may name a member twice",
        (Edit("edge/bodies.py", "    if bounds.unique:\n", "    if False:\n"),),
        breaks="P8",
        killed_by="tests/unit/edge/test_bodies.py"
        "::test_a_member_that_is_named_twice_is_refused_where_little_is_said",
    ),
    Mutant(
        "a shared ack names the places of its parts",
        (
            Edit(
                "subscribe_forwarder/api/ack_parts.py",
                "            one.index = items[one.index]\n",
                "",
            ),
        ),
        breaks="P8",
        killed_by="tests/unit/subscribe_forwarder/test_ack_parts.py"
        "::test_answers_are_added_and_name_the_places_of_the_request",
    ),
    Mutant(
        "a text of a query need not match the pattern of its parameter",
        (
            Edit(
                "edge/parameters.py",
                "limits.pattern is not None and re.search(limits.pattern, text) is None:",
                "False:",
            ),
        ),
        breaks="P8",
        killed_by="tests/unit/edge/test_parameters.py"
        "::test_a_text_that_is_not_of_the_pattern_is_refused_with_its_own_rule",
    ),
)
