"""The plan of `fairlane demo --jobs`: what there is to do, decided before it starts."""

import pytest

from fairlane.cli.demo.jobs.kinds import KINDS
from fairlane.cli.demo.jobs.plan import SHORTEST_DELAY, JobsPlan, planned
from fairlane.retry import Discard, Fail, Retry


def test_twenty_jobs_are_of_all_types() -> None:
    assert {job.type for job in planned(20)} == KINDS.keys()


def test_the_same_number_is_the_same_plan() -> None:
    assert planned(50) == planned(50)
    assert planned(50)[:20] == planned(20)


def test_some_jobs_are_delayed_and_priorities_differ() -> None:
    jobs = planned(100)
    assert 10 < sum(job.delay > 0 for job in jobs) < 60
    assert {job.priority for job in jobs} == {-1, 0, 5}


def test_a_unique_job_waits_until_it_was_enqueued_twice() -> None:
    unique = [job for job in planned(100) if job.is_unique]
    assert unique
    assert all(job.delay >= SHORTEST_DELAY for job in unique)


def test_each_unique_job_has_a_key_of_its_own() -> None:
    keys = [job.unique_key for job in planned(100) if job.is_unique]
    assert len(set(keys)) == len(keys)
    assert {job.unique_key for job in planned(100) if not job.is_unique} == {None}


def test_payloads_tell_jobs_apart() -> None:
    assert len({str(job.payload()) for job in planned(100)}) == 100


def test_leases_of_jobs_end_sooner_than_those_of_events() -> None:
    assert (JobsPlan(jobs=planned(1)).visibility, JobsPlan.work) == (3.0, "jobs")


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("quick", None, None),
        ("again", Retry, None),
        ("refused", Fail, Fail),
        ("dropped", Discard, Discard),
    ],
)
def test_a_handler_answers_as_its_type_says(
    name: str, first: type[Exception] | None, second: type[Exception] | None
) -> None:
    answers = [KINDS[name].answer(attempt) for attempt in (1, 2)]
    assert [answer and type(answer) for answer in answers] == [first, second]


def test_a_flaky_handler_fails_once_and_a_broken_one_for_ever() -> None:
    fails = {
        name: [KINDS[name].answer(attempt) is not None for attempt in (1, 2, 3)]
        for name in ("flaky", "broken")
    }
    assert fails == {"flaky": [True, False, False], "broken": [True, True, True]}
