"""What the processes of the benchmark of peers tell each other, and what they write down."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from benchmarks.peers._child import Publishing
from benchmarks.peers._log import Log, Mark, written
from benchmarks.peers._records import Delivery, Orders, Publication, Share, Sizes

from fairlane.testing import ManualClock

SIZES = Sizes(publishers=3, workers=2, groups=4, depth=2, size=1)
ORDERS = Orders(
    role="work",
    url="mongodb://localhost",
    database="d",
    sizes=SIZES,
    batch=1,
    expected=2,
    seconds=60.0,
    patience=5.0,
)


class Bench:
    """A log with a clock of its own; its marks are empty."""

    def __init__(self, orders: Orders) -> None:
        self.clock = ManualClock(100.0)
        self.log = Log(orders, self.mark, clock=self.clock)

    def mark(self) -> Mark:
        return Mark(at=self.clock(), cpu=0.0, commands=Counter(), written=0)

    def settle(self, number: int, *, after: float = 1.0) -> None:
        self.log.handled(number)
        self.clock.advance(after)
        self.log.settled(number)


@pytest.fixture
def bench() -> Bench:
    return Bench(ORDERS)


def test_every_message_has_one_publisher() -> None:
    numbers = [number for publisher in range(3) for number in SIZES.share_of(publisher)]
    assert sorted(numbers) == list(range(SIZES.messages))


def test_group_has_one_publisher_that_keeps_its_order() -> None:
    assert list(SIZES.share_of(0)) == [0, 3, 4, 7]


def test_more_publishers_than_groups_leave_some_without_work() -> None:
    assert list(replace(SIZES, publishers=8).share_of(6)) == []


def test_orders_survive_the_pipe() -> None:
    assert Orders.from_json(ORDERS.to_json()) == ORDERS


def test_share_survives_the_pipe() -> None:
    share = Share(
        began=1.0,
        cpu=0.5,
        commands={"find": 2},
        written=0,
        versions={"pymongo": "4"},
        published=(Publication(0, 1.0, 2.0),),
        delivered=(Delivery(0, 1.0, 2.0), Delivery(1, 1.5, None)),
    )
    assert Share.from_json(share.to_json()) == share


def test_log_is_over_when_all_expected_messages_are_settled(bench: Bench) -> None:
    bench.settle(0)
    assert not bench.log.is_over
    bench.settle(1)
    assert bench.log.is_complete
    assert bench.log.is_over


def test_second_settlement_of_a_message_is_no_progress(bench: Bench) -> None:
    bench.settle(0, after=1.0)
    bench.settle(0, after=1.0)
    assert not bench.log.is_over
    assert bench.log.last is not None
    assert bench.log.last.at == 101.0


def test_log_is_over_when_nothing_happens_any_more(bench: Bench) -> None:
    bench.settle(0)
    bench.clock.advance(5.5)
    assert bench.log.is_over
    assert not bench.log.is_complete


def test_first_message_may_take_all_the_time_there_is(bench: Bench) -> None:
    bench.clock.advance(59.0)
    assert not bench.log.is_over
    bench.clock.advance(2.0)
    assert bench.log.is_over


def test_deliveries_are_told_in_the_order_of_handling(bench: Bench) -> None:
    bench.log.handled(1)
    bench.settle(0)
    bench.log.settled(1)
    assert bench.log.deliveries() == (Delivery(1, 100.0, 101.0), Delivery(0, 100.0, 101.0))


def test_each_delivery_of_a_message_has_its_own_settlement(bench: Bench) -> None:
    bench.settle(0)
    bench.log.handled(0)
    assert [each.settled for each in bench.log.deliveries()] == [101.0, None]


@pytest.mark.parametrize(
    ("command", "reply", "documents"),
    [
        ("insert", {"n": 64}, 64),
        ("update", {"n": 3, "nModified": 2}, 3),
        ("delete", {"n": 0}, 0),
        ("findAndModify", {"lastErrorObject": {"n": 1}, "value": {}}, 1),
        ("findAndModify", {"value": None}, 0),
        ("bulkWrite", {"nInserted": 1, "nUpserted": 2, "nMatched": 3, "nDeleted": 4}, 10),
        ("find", {"cursor": {}}, 0),
    ],
)
def test_written_documents_are_read_off_the_reply(
    command: str, reply: dict[str, Any], documents: int
) -> None:
    assert written(command, reply) == documents


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(100.0)


def test_publish_lasts_until_the_next_message_is_asked_for(clock: ManualClock) -> None:
    publishing = Publishing(ORDERS, clock(), clock=clock)
    for _ in publishing.messages_of(1):
        clock.advance(2.0)
    assert publishing.published == [Publication(1, 100.0, 102.0), Publication(5, 102.0, 104.0)]


def test_nothing_is_published_when_time_is_over(clock: ManualClock) -> None:
    publishing = Publishing(ORDERS, clock(), clock=clock)
    for _ in publishing.messages_of(0):
        clock.advance(61.0)
    assert [each.number for each in publishing.published] == [0]
