"""Our own rules find each thing they are there to find."""

from __future__ import annotations

from tests.chaos.history import Act, Delivery, Outcome, Publish, Stored
from tests.chaos.rules import check, check_deliveries

ACKED = Outcome.ACKED


def acked(payload: str, sent_s: float, at: tuple[int, int], key: str | None = None) -> Publish:
    partition, offset = at
    return Publish(payload, key, sent_s, sent_s + 1, ACKED, partition, offset)


def log(*payloads: str, key: str | None = None) -> list[Stored]:
    return [Stored(offset, payload, key) for offset, payload in enumerate(payloads)]


def broken(history: list[Publish], logs: dict[int, list[Stored]]) -> str:
    """Return the one rule that is broken."""
    rules = {violation.split(":")[0] for violation in check(history, logs).violations}
    assert len(rules) <= 1, rules
    return rules.pop() if rules else ""


def test_a_good_history_breaks_nothing() -> None:
    unknown = Publish("c", None, 2.0, 9.0, Outcome.UNKNOWN)
    history = [acked("a", 0, (0, 0)), acked("b", 0, (1, 0)), unknown]
    verdict = check(history, {0: log("a", "c"), 1: log("b")})
    assert verdict.violations == []
    assert (verdict.acked, verdict.unknown, verdict.unknown_but_stored) == (2, 1, 1)


def test_a_lost_message() -> None:
    assert broken([acked("a", 0, (0, 0)), acked("b", 2, (0, 1))], {0: log("a")}) == "acknowledged"


def test_a_message_elsewhere_than_the_answer_said() -> None:
    assert broken([acked("a", 0, (0, 1))], {0: log("a")}) == "acknowledged"


def test_a_gap() -> None:
    logs = {0: [Stored(0, "a", None), Stored(2, "b", None)]}
    assert broken([acked("a", 0, (0, 0)), acked("b", 0, (0, 2))], logs) == "offsets"


def test_a_missing_beginning() -> None:
    assert broken([acked("a", 0, (0, 1))], {0: [Stored(1, "a", None)]}) == "offsets"


def test_a_copy_in_one_partition() -> None:
    assert broken([acked("a", 0, (0, 0))], {0: log("a", "a")}) == "duplicate"


def test_a_copy_in_two_partitions() -> None:
    assert broken([acked("a", 0, (0, 0))], {0: log("a"), 1: log("a")}) == "duplicate"


def test_a_refused_message_in_the_log() -> None:
    refused = Publish("a", None, 0, 1, Outcome.NOT_DONE, reason="503")
    assert broken([refused], {0: log("a")}) == "not done"


def test_a_message_nobody_sent() -> None:
    assert broken([], {0: log("a")}) == "invented"


def test_a_key_in_two_partitions() -> None:
    history = [acked("a", 0, (0, 0), key="k"), acked("b", 2, (1, 0), key="k")]
    assert "key" in broken(history, {0: log("a"), 1: log("b")})


def test_a_key_out_of_order() -> None:
    late = Publish("a", "k", 0, 1, Outcome.UNKNOWN)
    history = [late, acked("b", 2, (0, 0), key="k")]
    assert broken(history, {0: log("b", "a")}) == "key"


def test_an_abandoned_publish_may_come_late_and_not_early() -> None:
    abandoned = Publish("b", "k", 2, 32, Outcome.UNKNOWN, abandoned=True)
    late = [acked("a", 0, (0, 0), key="k"), abandoned, acked("c", 40, (0, 1), key="k")]
    assert broken(late, {0: log("a", "c", "b")}) == ""
    early = [acked("a", 0, (0, 1), key="k"), abandoned]
    assert broken(early, {0: log("b", "a")}) == "key"


def test_order_is_asked_for_on_both_sides_of_an_abandoned_publish() -> None:
    abandoned = Publish("b", "k", 2, 32, Outcome.UNKNOWN, abandoned=True)
    unknown = Publish("a", "k", 0, 1, Outcome.UNKNOWN)
    history = [unknown, abandoned, Publish("c", "k", 40, 41, Outcome.UNKNOWN)]
    assert broken(history, {0: log("c", "a", "b")}) == "key"


def test_an_earlier_offset_for_a_later_publish() -> None:
    history = [acked("a", 0, (0, 1)), acked("b", 2, (0, 0))]
    assert broken(history, {0: log("b", "a")}) == "real time"


def test_publishes_at_the_same_time_may_be_in_any_order() -> None:
    history = [acked("a", 0, (0, 1)), acked("b", 0.5, (0, 0))]
    assert broken(history, {0: log("b", "a")}) == ""


def given(
    pulled_s: float, acked_s: float = 0.0, payload: str = "a", *, found_acked: bool = False
) -> Delivery:
    acts = [Act("ack", acked_s, acked_s, ACKED)] if acked_s else []
    acts += [Act("found_acked", 9.0, 9.0, ACKED)] if found_acked else []
    return Delivery("worker", 0, 0, payload, pulled_s, pulled_s, acts=acts)


def rules(*deliveries: Delivery) -> set[str]:
    verdict = check_deliveries(deliveries, {0: log("a")})
    return {violation.split(":")[0] for violation in verdict.violations}


def test_a_delivery_may_be_repeated_until_its_ack_is_answered() -> None:
    assert rules(given(1.0), given(2.0, 3.0)) == set()
    assert rules(given(1.0, 5.0), given(2.0)) == set()


def test_a_delivery_after_its_ack() -> None:
    assert rules(given(1.0, 2.0), given(3.0)) == {"ack"}


def test_a_message_never_delivered_or_never_acked() -> None:
    assert rules() == {"undelivered", "unacked"}
    assert rules(given(1.0)) == {"unacked"}
    assert rules(given(1.0, found_acked=True)) == set()


def test_a_delivery_of_something_else() -> None:
    assert rules(given(1.0, 2.0, "b")) == {"delivered"}
