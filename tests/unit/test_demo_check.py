"""The judge of `fairlane demo`: silent on a good run, and it finds every kind of planted fault."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from fairlane.cli.demo.check import Published, Verdict, check
from fairlane.cli.demo.records import Delivery, Execution


def publish(group: str, index: int, **changes: Any) -> Published:
    """Seq counts up over both groups: a0=0, b0=1, a1=10, b1=11, ..."""
    values: dict[str, Any] = {
        "group": group,
        "index": index,
        "seq": 10 * index + ord(group) - ord("a"),
        "digest": f"{group}{index}",
        "started_at": 0,
        "returned_at": 1,
    }
    return Published(**values | changes)


def handle(group: str, index: int, start: int, end: int, outcome: str = "handled", **changes: Any):
    event = publish(group, index)
    values: dict[str, Any] = {
        "group": group,
        "index": index,
        "seq": event.seq,
        "attempt": 1,
        "digest": event.digest,
    }
    return Execution(
        worker="w",
        delivery=Delivery(**values | changes),
        started_at=start,
        ended_at=end,
        outcome=outcome,  # type: ignore[arg-type]
    )


def kinds(published: Sequence[Published], executions: Sequence[Execution]) -> list[str]:
    return [breach.kind for breach in check(published, executions).breaches]


STREAM = [publish("a", 0), publish("b", 0), publish("a", 1), publish("a", 2)]
GOOD = [
    handle("a", 0, 10, 20),
    handle("b", 0, 15, 25),
    handle("a", 1, 20, 30),
    handle("a", 2, 31, 40),
]


def test_a_good_run_breaks_nothing():
    verdict = check(STREAM, GOOD)
    assert (verdict.processed, verdict.redelivered, verdict.breaches) == (4, {}, ())


def test_the_order_of_the_records_does_not_matter():
    assert check(STREAM, GOOD[::-1]) == check(STREAM, GOOD)


def test_handlers_of_different_groups_may_overlap_and_pass_each_other():
    run = [handle("b", 1, 10, 90), handle("a", 0, 11, 89)]
    assert kinds([publish("a", 0), publish("b", 1)], run) == []


def test_an_event_that_nobody_got_is_lost():
    assert kinds(STREAM, GOOD[:3]) == ["lost"]


@pytest.mark.parametrize("outcome", ["failed", "cancelled", "cut"])
def test_an_event_whose_handler_never_finished_is_lost(outcome: str):
    assert kinds(STREAM, [*GOOD[:3], handle("a", 2, 31, 40, outcome)]) == ["lost"]


@pytest.mark.parametrize("change", [{"digest": "other"}, {"seq": 99}])
def test_an_event_that_arrives_altered_is_lost_and_unexpected(change: dict[str, Any]):
    altered = handle("a", 2, 31, 40, **change)
    assert kinds(STREAM, [*GOOD[:3], altered]) == ["lost", "unexpected"]


def test_an_event_that_was_never_published_is_unexpected():
    assert kinds(STREAM, [*GOOD, handle("a", 3, 50, 60)]) == ["unexpected"]


def test_two_events_of_a_group_in_the_wrong_order_are_found():
    swapped = [GOOD[0], GOOD[1], handle("a", 2, 20, 30), handle("a", 1, 31, 40)]
    assert kinds(STREAM, swapped) == ["out_of_order"]


def test_the_wrong_order_is_found_although_the_early_handler_failed():
    run = [GOOD[0], GOOD[1], handle("a", 2, 20, 22, "failed"), handle("a", 1, 23, 30), GOOD[3]]
    assert kinds(STREAM, run) == ["out_of_order"]


def test_a_second_delivery_after_its_successor_is_out_of_order():
    assert kinds(STREAM, [*GOOD, handle("a", 1, 50, 60)]) == ["out_of_order"]


def test_an_event_that_overtakes_a_failed_one_for_good_makes_it_lost():
    run = [handle("a", 0, 10, 20, "failed"), *GOOD[1:]]
    assert kinds(STREAM, run) == ["lost"]


def test_two_handlers_in_a_group_at_once_overlap():
    run = [GOOD[0], GOOD[1], GOOD[2], handle("a", 2, 29, 40)]
    assert kinds(STREAM, run) == ["overlapping"]


def test_the_same_event_in_two_handlers_at_once_overlaps():
    assert kinds(STREAM, [*GOOD, handle("a", 2, 39, 50)]) == ["overlapping"]


def test_a_handler_inside_a_longer_one_overlaps():
    run = [handle("a", 0, 10, 100), GOOD[1], GOOD[2], GOOD[3]]
    assert kinds(STREAM, run) == ["overlapping", "overlapping"]


def test_a_handler_that_starts_before_the_death_of_its_predecessor_overlaps():
    run = [handle("a", 0, 10, 50, "cut"), handle("a", 0, 49, 60), GOOD[1]]
    assert kinds(STREAM[:2], run) == ["overlapping"]


def test_a_handler_may_start_the_moment_its_predecessor_ends():
    assert kinds(STREAM[:1], [handle("a", 0, 10, 20, "failed"), handle("a", 0, 20, 30)]) == []


@pytest.mark.parametrize("outcome", ["failed", "cancelled", "cut", "handled"])
def test_a_delivery_repeated_before_its_successor_is_redelivered_and_legal(outcome: str):
    run = [handle("a", 0, 1, 9, outcome), handle("a", 0, 10, 20), *GOOD[1:]]
    verdict = check(STREAM, run)
    assert (verdict.redelivered.total(), verdict.processed, verdict.breaches) == (1, 4, ())


def test_breaches_say_where():
    (breach,) = check(STREAM, GOOD[:3]).breaches
    assert breach.detail == "event 2 of 'a' (seq 20) was never handled"


def test_counts_are_by_kind():
    verdict = check(STREAM, [GOOD[0]])
    assert (verdict.count("lost"), verdict.count("overlapping")) == (3, 0)


def test_latency_runs_from_the_call_of_publish_to_the_first_finished_handler():
    stream = [replace(publish("a", 0), started_at=5), replace(publish("b", 0), started_at=7)]
    run = [
        handle("a", 0, 10, 12, "failed"),
        handle("a", 0, 20, 25),
        handle("a", 0, 30, 35),
        handle("b", 0, 10, 11),
    ]
    verdict = check(stream, run)
    assert (verdict.latencies, verdict.ended_at) == ((4, 20), 25)


def test_a_run_in_which_nothing_happened_has_no_end():
    assert check([], []) == Verdict(
        processed=0, redelivered=Counter(), ended_at=None, latencies=(), breaches=()
    )
