"""The judge of `fairlane demo --jobs`: silent on a good run, and it finds every planted fault."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from fairlane.cli.demo.jobs.case import Evidence
from fairlane.cli.demo.jobs.check import check
from fairlane.cli.demo.jobs.enqueuing import Placed
from fairlane.cli.demo.jobs.ledger import Held, Stored
from fairlane.cli.demo.jobs.plan import TICKING_ID, PlannedJob
from fairlane.cli.demo.records import Delivery, Execution, Outcome, Settlement, digest

SECOND = 1_000_000_000
TYPES = {"q": "quick", "b": "broken", "d": "dropped"}


def plan(job: str, *, is_unique: bool = False, delay: float = 0.0) -> PlannedJob:
    """Of `q1` the type is quick and the index 1."""
    return PlannedJob(
        index=int(job[1:]), type=TYPES[job[0]], priority=0, delay=delay, is_unique=is_unique
    )


def place(job: str, *, key: str = "", created: bool = True, at: int = 0, **options: Any) -> Placed:
    return Placed(
        job=plan(job, **options),
        id=key or job,
        is_created=created,
        started_at=at,
        returned_at=at + 1,
    )


def start(
    job: str, number: int, begin: int, end: int, outcome: Outcome = "handled", **changes: Any
) -> Execution:
    """Start number n has attempt n and epoch n. Ticks are given as `changes`."""
    values: dict[str, Any] = {"group": job, "seq": number, "attempt": number, "index": 0}
    if job != TICKING_ID:
        values |= {"index": int(job[1:]), "digest": digest(plan(job).payload())}
    else:
        values |= {"digest": ""}
    worker = changes.pop("worker", "w")
    return Execution(
        worker=worker,
        delivery=Delivery(**values | changes),
        started_at=begin,
        ended_at=end,
        outcome=outcome,
    )


def tick(moment: int, epoch: int, begin: int, end: int, **changes: Any) -> Execution:
    return start(TICKING_ID, epoch, begin, end, index=moment, attempt=1, **changes)


def settle(job: str, epoch: int, at: int, kind: str = "acked") -> Settlement:
    return Settlement(worker="w", kind=kind, group=job, seq=epoch, attempt=epoch, settled_at=at)


def store(job: str, state: str = "done", attempts: int = 1, **changes: Any) -> Stored:
    values: dict[str, Any] = {"id": job, "state": state, "attempts": attempts, "epoch": attempts}
    return Stored(**{"is_leased": False} | values | changes)


BROKEN_STARTS = [start("b2", n, 100 * n, 100 * n + 10, "failed") for n in (1, 2, 3)]
TICKS = [tick(1000, 1, 10, 20), tick(1500, 2, 30, 40)]
GOOD = Evidence(
    placed=[place("q1"), place("b2"), place("d3")],
    executions=[
        start("q1", 1, 10, 20),
        *BROKEN_STARTS,
        start("d3", 1, 10, 20, "failed"),
        *TICKS,
    ],
    settlements=[
        settle("q1", 1, 21),
        settle("b2", 1, 111, "nacked"),
        settle("b2", 2, 211, "nacked"),
        settle("b2", 3, 311, "dead_lettered"),
        settle("d3", 1, 21),
        settle(TICKING_ID, 1, 21),
        settle(TICKING_ID, 2, 41),
    ],
    stored=[
        store("q1"),
        store("b2", "failed", 3),
        store("d3"),
        store(TICKING_ID, "pending", 0),
    ],
)


def changed(
    *,
    job: str = "q1",
    starts: Sequence[Execution] | None = None,
    ends: Sequence[Settlement] | None = None,
    stored: Stored | None = None,
    **others: Any,
) -> Evidence:
    """The good run, but that of one job other things are told."""
    evidence = replace(GOOD, **others)
    if starts is not None:
        kept = [each for each in GOOD.executions if each.delivery.group != job]
        evidence = replace(evidence, executions=[*kept, *starts])
    if ends is not None:
        told = [each for each in GOOD.settlements if each.group != job]
        evidence = replace(evidence, settlements=[*told, *ends])
    if stored is not None:
        rest = [each for each in GOOD.stored if each.id != job]
        evidence = replace(evidence, stored=[*rest, stored])
    return evidence


def kinds(evidence: Evidence) -> list[str]:
    return [breach.kind for breach in check(evidence).breaches]


def test_a_good_run_breaks_nothing() -> None:
    verdict = check(GOOD)
    assert verdict.breaches == ()
    assert (verdict.jobs, verdict.done, verdict.failed, verdict.ticks) == (3, 2, 1, 2)


def test_two_handlers_on_a_job_at_once_overlap() -> None:
    evidence = changed(
        starts=[start("q1", 1, 10, 30, "cancelled"), start("q1", 2, 20, 40)],
        ends=[settle("q1", 2, 41)],
        stored=store("q1", attempts=2),
    )
    assert kinds(evidence) == ["overlapping"]


def test_a_handler_that_starts_before_the_death_of_its_predecessor_overlaps() -> None:
    evidence = changed(
        starts=[start("q1", 1, 10, 50, "cut", worker="k"), start("q1", 2, 49, 60)],
        ends=[settle("q1", 2, 61)],
        stored=store("q1", attempts=2),
        killed=["k"],
    )
    assert kinds(evidence) == ["overlapping"]


def test_a_second_start_under_one_lease_is_found_three_times_over() -> None:
    twice = [start("q1", 1, 10, 20), start("q1", 1, 22, 30)]
    assert kinds(changed(starts=twice)) == ["not_once", "miscounted", "miscounted", "unfenced"]


def test_a_job_that_ended_twice_is_found() -> None:
    assert kinds(changed(ends=[settle("q1", 1, 21), settle("q1", 1, 22)])) == ["not_once"]


def test_a_job_that_ended_as_two_things_is_found() -> None:
    ends = [settle("q1", 1, 21), settle("q1", 2, 22, "dead_lettered")]
    assert kinds(changed(ends=ends)) == ["not_once"]


def test_a_start_after_the_end_is_found() -> None:
    evidence = changed(
        starts=[start("q1", 1, 10, 20), start("q1", 2, 30, 40)],
        ends=[settle("q1", 1, 21), settle("q1", 2, 41, "lease_lost")],
        stored=store("q1", attempts=2),
    )
    assert kinds(evidence) == ["not_once"]


def test_a_job_that_nobody_says_to_have_ended_is_found() -> None:
    assert kinds(changed(ends=[])) == ["not_once"]


def test_an_end_that_a_killed_worker_could_not_record_is_fine() -> None:
    alone = [start("q1", 1, 10, 20, worker="k")]
    assert kinds(changed(starts=alone, ends=[], killed=["k"])) == []


def test_an_end_without_an_answer_is_fine() -> None:
    assert kinds(changed(ends=[settle("q1", 1, 21, "unsettled")])) == []


def test_a_job_that_failed_against_the_plan_is_found() -> None:
    assert kinds(changed(stored=store("q1", "failed"))) == ["wrong_end"]


def test_a_job_that_is_done_against_the_plan_is_found() -> None:
    assert kinds(changed(job="b2", stored=store("b2", "done", 3))) == ["wrong_end"]


def test_a_job_that_failed_with_an_attempt_left_is_found() -> None:
    evidence = changed(
        job="b2",
        starts=BROKEN_STARTS[:2],
        ends=[settle("b2", 2, 211, "dead_lettered")],
        stored=store("b2", "failed", 2),
    )
    assert kinds(evidence) == ["wrong_end"]


def test_a_job_that_is_not_stored_is_lost() -> None:
    assert kinds(changed(stored=store("x9"))) == ["lost", "unexpected"]


@pytest.mark.parametrize("outcome", ["failed", "cancelled", "cut"])
def test_a_job_that_is_done_without_a_handler_having_finished_is_lost(outcome: Outcome) -> None:
    assert kinds(changed(starts=[start("q1", 1, 10, 20, outcome)])) == ["lost"]


@pytest.mark.parametrize("state", ["pending", "processing"])
def test_a_job_that_has_not_ended_is_stuck(state: str) -> None:
    evidence = changed(ends=[settle("q1", 1, 21, "nacked")], stored=store("q1", state))
    assert kinds(evidence) == ["stuck"]


@pytest.mark.parametrize("attempts", [0, 2])
def test_attempts_that_are_not_the_starts_are_miscounted(attempts: int) -> None:
    assert kinds(changed(stored=store("q1", attempts=attempts))) == ["miscounted"]


def test_a_lease_that_ended_with_its_worker_before_the_start_counts_as_an_attempt() -> None:
    evidence = changed(
        starts=[start("q1", 2, 10, 20)],
        ends=[settle("q1", 2, 21)],
        stored=store("q1", attempts=2),
        held=[Held(job_id="q1", epoch=1)],
        killed=["k"],
    )
    verdict = check(evidence)
    assert (verdict.breaches, verdict.unstarted) == ((), 1)


def test_a_lease_that_ended_with_its_worker_after_the_start_counts_once() -> None:
    evidence = changed(held=[Held(job_id="q1", epoch=1)], stored=store("q1", attempts=2))
    assert kinds(evidence) == ["miscounted"]


def test_an_attempt_that_is_told_twice_is_miscounted() -> None:
    evidence = changed(
        starts=[start("q1", 1, 1, 9, "failed"), start("q1", 2, 10, 20, attempt=1)],
        stored=store("q1", attempts=2),
    )
    assert kinds(evidence) == ["miscounted"]


def test_a_start_whose_lease_is_older_than_the_last_is_unfenced() -> None:
    evidence = changed(
        starts=[start("q1", 1, 1, 9, "failed", seq=7), start("q1", 2, 10, 20, seq=6)],
        stored=store("q1", attempts=2),
    )
    assert kinds(evidence) == ["unfenced"]


@pytest.mark.parametrize(("at", "found"), [(SECOND // 2, ["early"]), (SECOND, [])])
def test_a_start_before_the_delay_is_over_is_early(at: int, found: list[str]) -> None:
    evidence = changed(
        placed=[place("q1", delay=1.0), *GOOD.placed[1:]],
        starts=[start("q1", 1, at, at + 1)],
        ends=[settle("q1", 1, at + 2)],
    )
    assert kinds(evidence) == found


def rivals(*, second_at: int) -> Evidence:
    """Two jobs of one key; the handler of the first ends at 20."""
    return replace(
        GOOD,
        placed=[
            place("q1", is_unique=True),
            place("q1", key="other", is_unique=True, at=second_at),
            *GOOD.placed[1:],
        ],
        executions=[*GOOD.executions, start("q1", 1, 40, 50, group="other")],
        settlements=[*GOOD.settlements, settle("other", 1, 51)],
        stored=[*GOOD.stored, store("other")],
    )


def test_two_jobs_of_one_key_at_once_are_duplicated() -> None:
    assert kinds(rivals(second_at=5)) == ["duplicated"]


def test_a_second_job_of_a_key_whose_first_has_not_ended_is_duplicated() -> None:
    evidence = rivals(second_at=25)
    stored = [replace(job, state="pending") if job.id == "q1" else job for job in evidence.stored]
    assert kinds(replace(evidence, stored=stored)) == ["stuck", "duplicated"]


def test_two_jobs_of_one_key_one_after_the_other_are_fine() -> None:
    assert kinds(rivals(second_at=25)) == []


def test_two_calls_for_one_job_are_counted_as_a_duplicate() -> None:
    calls = [place("q1", is_unique=True), place("q1", is_unique=True, created=False)]
    verdict = check(replace(GOOD, placed=[*calls, *GOOD.placed[1:]]))
    assert (verdict.breaches, verdict.duplicates, verdict.jobs) == ((), 1, 3)


@pytest.mark.parametrize("created", [True, False])
def test_calls_that_do_not_agree_who_made_the_job_are_found(created: bool) -> None:
    calls = [place("q1", is_unique=True, created=created)] * 2
    assert kinds(replace(GOOD, placed=[*calls, *GOOD.placed[1:]])) == ["duplicated"]


def test_a_job_that_is_returned_for_another_one_is_found() -> None:
    calls = [place("q1"), place("q4", key="q1", created=False)]
    assert kinds(replace(GOOD, placed=[*calls, *GOOD.placed[1:]])) == ["duplicated"]


def test_a_job_that_nobody_enqueued_is_unexpected() -> None:
    evidence = replace(GOOD, executions=[*GOOD.executions, start("q9", 1, 10, 20)])
    assert kinds(evidence) == ["unexpected"]


@pytest.mark.parametrize("change", [{"digest": "other"}, {"index": 7}])
def test_a_job_that_arrives_altered_is_unexpected(change: dict[str, Any]) -> None:
    assert kinds(changed(starts=[start("q1", 1, 10, 20, **change)])) == ["unexpected"]


def of_ticks(*starts: Execution, ends: Sequence[Settlement] = ()) -> list[str]:
    told = ends or [settle(TICKING_ID, s.delivery.seq, s.ended_at + 1) for s in starts]
    return kinds(changed(job=TICKING_ID, starts=starts, ends=told))


def test_two_ticks_at_once_overlap() -> None:
    assert of_ticks(tick(1000, 1, 10, 30), tick(1500, 2, 20, 40)) == ["overlapping"]


def test_a_tick_that_ended_twice_is_found() -> None:
    again = [tick(1000, 1, 10, 20), tick(1000, 2, 20, 30), tick(1500, 3, 40, 50)]
    assert of_ticks(*again) == ["not_once"]


def test_a_tick_that_is_started_after_its_end_is_found() -> None:
    again = [tick(1000, 1, 10, 20), tick(1000, 2, 22, 30)]
    assert of_ticks(*again, ends=[settle(TICKING_ID, 1, 21)]) == ["not_once"]


def test_a_tick_that_is_left_without_an_end_is_found() -> None:
    assert of_ticks(*TICKS, ends=[settle(TICKING_ID, 2, 41)]) == ["not_once"]


def test_the_last_tick_need_not_have_ended_when_the_workers_stop() -> None:
    assert of_ticks(*TICKS, ends=[settle(TICKING_ID, 1, 21)]) == []


def test_a_tick_whose_lease_is_older_than_the_last_is_unfenced() -> None:
    assert of_ticks(tick(1000, 2, 10, 20), tick(1500, 1, 30, 40)) == ["unfenced"]


def test_a_tick_that_comes_after_a_later_one_is_found() -> None:
    assert of_ticks(tick(1500, 1, 10, 20), tick(1000, 2, 30, 40)) == ["not_once"]


def test_a_tick_that_a_kill_cut_is_run_again() -> None:
    evidence = changed(
        job=TICKING_ID,
        starts=[tick(1000, 1, 10, 20, worker="k", outcome="cut"), tick(1000, 2, 30, 40)],
        ends=[settle(TICKING_ID, 2, 41)],
        killed=["k"],
    )
    assert kinds(evidence) == []


@pytest.mark.parametrize("change", [{"state": "processing"}, {"is_leased": True}])
def test_a_recurring_job_that_does_not_wait_for_its_tick_is_stuck(change: dict[str, Any]) -> None:
    held = replace(store(TICKING_ID, "pending", 0), **change)
    assert kinds(changed(job=TICKING_ID, stored=held)) == ["stuck"]


def test_a_recurring_job_that_is_not_stored_is_lost() -> None:
    stored = [each for each in GOOD.stored if each.id != TICKING_ID]
    assert kinds(replace(GOOD, stored=stored)) == ["lost"]


def test_a_recurring_job_that_never_ran_is_stuck() -> None:
    evidence = replace(GOOD, executions=GOOD.executions[:-2], settlements=GOOD.settlements[:-2])
    assert kinds(evidence) == ["stuck"]


def test_the_order_of_the_records_does_not_matter() -> None:
    backwards = replace(GOOD, executions=GOOD.executions[::-1], settlements=GOOD.settlements[::-1])
    assert check(backwards) == check(GOOD)


def test_a_wait_runs_from_the_moment_a_job_was_due_to_its_first_start() -> None:
    placed = [place("q1", delay=1.0, at=5), place("b2", at=40), place("d3", at=7)]
    verdict = check(changed(placed=placed, starts=[start("q1", 1, SECOND + 9, SECOND + 10)]))
    assert (verdict.waits, verdict.ended_at) == ((3, 4, 60), SECOND + 10)


def test_breaches_say_what_became_of_which_job() -> None:
    (breach,) = check(changed(stored=store("q1", attempts=2))).breaches
    assert breach.detail == "job 1 (quick, q1) was started 1 time, but counts 2 attempts"


def test_a_run_in_which_nothing_happened_is_stuck() -> None:
    verdict = check(Evidence(placed=[], executions=[], settlements=[], stored=[]))
    assert [breach.kind for breach in verdict.breaches] == ["stuck"]
    assert (verdict.ended_at, verdict.waits, verdict.jobs) == (None, (), 0)
