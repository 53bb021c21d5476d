"""What the benchmark of peers concludes from what the processes of a library did."""

from dataclasses import replace

import pytest
from benchmarks.peers._figures import (
    Figures,
    cost,
    duplicates,
    figures,
    latencies,
    order_violations,
    outcome,
    ratios,
)
from benchmarks.peers._processes import Ran
from benchmarks.peers._records import Delivery, Publication, Share, Sizes

GROUPS = 2
SIZES = Sizes(publishers=1, workers=1, groups=GROUPS, depth=2, size=1)


def share(
    *did: Publication | Delivery, began: float = 10.0, cpu: float = 0.0, **sent: int
) -> Share:
    return Share(
        began=began,
        cpu=cpu,
        commands=sent,
        written=sum(sent.values()),
        versions={},
        published=tuple(each for each in did if isinstance(each, Publication)),
        delivered=tuple(each for each in did if isinstance(each, Delivery)),
    )


def handled(*numbers: int) -> list[Delivery]:
    return [Delivery(number, at, at + 0.5) for at, number in enumerate(numbers, start=11)]


PUBLISHED = share(*(Publication(number, 10.0, 11.0) for number in range(4)), cpu=0.004, insert=4)
WORKED = share(*handled(0, 1, 2, 3), cpu=0.008, update=8)


@pytest.fixture
def whole() -> Figures:
    return figures(
        Ran(shares=(PUBLISHED,)),
        Ran(shares=(WORKED,), metered=0.02),
        Ran(shares=(PUBLISHED, WORKED)),
        SIZES,
        seconds=60.0,
    )


def test_rate_of_publishing_ends_with_the_last_publish(whole: Figures) -> None:
    assert whole.publish.per_second == 4.0


def test_rate_of_work_ends_with_the_last_settlement(whole: Figures) -> None:
    assert whole.claim_and_ack.per_second == round(4 / 4.5, 1)


def test_both_at_once_cost_what_both_processes_used(whole: Figures) -> None:
    assert whole.end_to_end.commands == {"insert": 4, "update": 8}
    assert whole.end_to_end.commands_per_message == 3.0
    assert whole.end_to_end.writes_per_message == 3.0
    assert whole.end_to_end.cpu_us_per_message == 3_000.0


def test_nothing_settled_has_no_rate() -> None:
    assert cost(Ran(shares=(share(find=7),))).per_second == 0.0


def test_publishes_whose_messages_were_left_do_not_count_for_those_done() -> None:
    left = cost(Ran(shares=(PUBLISHED, share(*handled(0), update=2))))
    assert (left.messages, left.commands_per_message) == (1, 3.0)


def test_processor_time_of_a_local_server_is_shared_by_the_messages(whole: Figures) -> None:
    assert whole.claim_and_ack.server_cpu_us_per_message == 5_000.0


def test_processor_time_of_another_server_is_not_known(whole: Figures) -> None:
    assert whole.end_to_end.server_cpu_us_per_message is None


@pytest.mark.parametrize(
    ("numbers", "violations"),
    [
        ((0, 1, 2, 3), 0),
        ((0, 2, 1, 3), 0),  # of two groups: nothing is out of order
        ((2, 0, 1, 3), 1),
        ((2, 3, 0, 1), 2),
        ((3,), 1),  # its predecessor never came
        ((0, 2, 0, 4), 0),  # a second delivery of the predecessor changes nothing
        ((2, 2, 0), 1),  # and one of the message itself is not counted
    ],
)
def test_message_before_its_predecessor_is_out_of_order(
    numbers: tuple[int, ...], violations: int
) -> None:
    assert order_violations(handled(*numbers), GROUPS) == violations


def test_each_delivery_after_the_first_is_a_duplicate() -> None:
    assert duplicates(handled(0, 1, 0, 0)) == 2


def test_latency_lasts_from_the_publish_to_the_first_settlement() -> None:
    delivered = [Delivery(0, 11.0, 12.0), Delivery(0, 12.0, 15.0), Delivery(1, 12.0, None)]
    assert latencies([Publication(0, 10.0, 11.0), Publication(1, 10.0, 11.0)], delivered) == [2.0]


def test_messages_left_when_time_ran_out_were_cut_off() -> None:
    late = share(Delivery(0, 69.0, 69.5))
    assert outcome(PUBLISHED, late, GROUPS, seconds=60.0).cut_off


def test_messages_left_while_there_was_time_are_stuck() -> None:
    stuck = outcome(PUBLISHED, share(*handled(0, 1, 2)), GROUPS, seconds=60.0)
    assert (stuck.not_handled, stuck.cut_off) == (1, False)


def test_handled_but_never_settled_is_not_done() -> None:
    unsettled = share(*handled(0, 1, 2), Delivery(3, 14.0, None))
    assert outcome(PUBLISHED, unsettled, GROUPS, seconds=60.0).not_handled == 1


def test_everybody_is_divided_by_the_bases_that_took_part(whole: Figures) -> None:
    twice = replace(whole, publish=replace(whole.publish, per_second=8.0))
    found = ratios({"fairlane": whole, "other": twice})
    assert found["other"] == {"fairlane": found["fairlane"]["fairlane"] | {"publish": 2.0}}


def test_nothing_is_divided_by_nothing(whole: Figures) -> None:
    silent = replace(whole, publish=replace(whole.publish, per_second=0.0))
    assert "publish" not in ratios({"floor": silent, "other": whole})["other"]["floor"]
