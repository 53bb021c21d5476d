"""The plan of a demo run: who does what, decided before it starts."""

import pytest

from fairlane.cli.demo.crew import WorkerPlan
from fairlane.cli.demo.events import Tally
from fairlane.cli.demo.input import Event
from fairlane.cli.demo.plan import Plan, fails_first, pause
from fairlane.cli.demo.publishing import split
from fairlane.cli.demo.records import Delivery, Execution
from fairlane.errors import ConfigurationError


def stream(*groups: str) -> tuple[Event, ...]:
    return tuple(
        Event(group=group, index=groups[:place].count(group), body=place)
        for place, group in enumerate(groups)
    )


@pytest.mark.parametrize(
    ("workers", "processes", "each"), [(64, 2, [32, 32]), (7, 3, [3, 2, 2]), (2, 2, [1, 1])]
)
def test_workers_are_shared_out_over_the_processes(workers: int, processes: int, each: list[int]):
    plan = Plan(events=stream("a"), workers=workers, processes=processes)
    assert [plan.claimers(slot) for slot in range(processes)] == each


def test_fewer_workers_than_processes_are_refused():
    with pytest.raises(
        ConfigurationError, match=r"workers must be at least processes \(2\), not 1"
    ):
        Plan(events=stream("a"), workers=1, processes=2)


def test_a_worker_plan_survives_json():
    plan = WorkerPlan(
        name="w",
        url="mongodb://u:p@h/",
        database="d",
        driver="motor",
        claimers=3,
        visibility=5.0,
        journal="/tmp/é\n",
    )
    assert WorkerPlan.from_json(plan.to_json()) == plan
    assert "\n" not in plan.to_json()


def test_a_few_percent_of_the_events_fail_first():
    assert 10 < sum(fails_first("g", index) for index in range(1000)) < 60


def test_a_handler_works_for_two_milliseconds_at_most():
    assert 0.001 < max(pause("g", index) for index in range(1000)) <= 0.002


def test_a_group_belongs_to_one_publisher_who_keeps_its_order():
    events = stream(*"abcabcaabacd")
    shares = split(events, 3)
    owners = {group: [s for s in shares if any(e.group == group for e in s)] for group in "abcd"}
    assert all(len(shares) == 1 for shares in owners.values())
    assert all([e for e in events if e in share] == share for share in shares)
    assert sum(map(len, shares)) == len(events)


def test_publishers_get_about_the_same_work():
    shares = split(stream(*"aaaaaabbbcccdd"), 2)
    assert sorted(map(len, shares)) == [6, 8]


def test_there_are_no_publishers_without_work():
    assert split(stream("a", "a"), 8) == [list(stream("a", "a"))]


def execution(index: int, outcome: str) -> Execution:
    delivery = Delivery(group="g", index=index, seq=index, attempt=1, digest="")
    return Execution(
        worker="w",
        delivery=delivery,
        started_at=0,
        ended_at=1,
        outcome=outcome,  # type: ignore[arg-type]
    )


def test_the_tally_counts_events_once_and_their_further_deliveries():
    tally = Tally()
    tally.add([execution(0, "failed"), execution(1, "handled")])
    tally.add([execution(0, "handled"), execution(0, "handled")])
    assert (tally.handled, tally.redelivered) == (2, 2)
