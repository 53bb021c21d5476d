"""The judge of a soak: each broken promise is found, and none where none is."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from fairlane.cli.demo.check import Published
from fairlane.cli.demo.records import Delivery, Execution
from fairlane.worker import WorkerEvent
from soak.fleet import Fleet
from soak.ledger import Ledger, Stall, Told, read
from soak.plan import Plan, Stream
from soak.troubles import Losses, Refusals
from soak.verdict import Record, judge, unnumbered


def published(index: int) -> Published:
    return Published(
        group="g", index=index, seq=10 + index, digest="d", started_at=0, returned_at=0
    )


def executed(index: int, at: int, *, seq: int | None = None) -> Execution:
    number = 10 + index if seq is None else seq
    delivery = Delivery(group="g", index=index, seq=number, attempt=1, digest="d")
    return Execution(
        worker="w", delivery=delivery, started_at=at, ended_at=at + 1, outcome="handled"
    )


def told(kind: Any, index: int, epoch: int) -> WorkerEvent:
    return WorkerEvent(
        kind=kind, worker_id="w", group_id="g", seq=10 + index, attempt=1, epoch=epoch
    )


GOOD = Record(
    published=[published(0), published(1)],
    executions=[executed(0, at=0), executed(1, at=5)],
    events=[
        told("claimed", 0, 1),
        told("acked", 0, 1),
        told("claimed", 1, 2),
        told("nacked", 1, 2),
        told("claimed", 1, 3),
        told("acked", 1, 3),
    ],
)


def test_good_record_is_not_blamed() -> None:
    assert judge(GOOD) == []


BROKEN = {
    "lost": replace(GOOD, executions=GOOD.executions[:1]),
    "unexpected": replace(GOOD, published=GOOD.published[:1]),
    "overlapping": replace(GOOD, executions=[executed(0, at=4), executed(1, at=4)]),
    "out_of_order": replace(GOOD, executions=[executed(1, at=0), executed(0, at=5)]),
    "I1 seq 10": replace(GOOD, events=[*GOOD.events[:2], told("claimed", 0, 2)]),
    "I1 event 1": replace(GOOD, dead=frozenset({("g", 1)})),
    "I2": replace(GOOD, events=[told("claimed", 1, 1), told("claimed", 0, 2)]),
    "I3 seq 11": replace(GOOD, events=[told("claimed", 0, 1), told("claimed", 1, 1)][::-1]),
    "I3 seq 10": replace(GOOD, events=[told("acked", 0, 1), told("dead_lettered", 0, 1)]),
    "I6": replace(GOOD, stray=["Task exception was never retrieved"]),
}


@pytest.mark.parametrize("breach", BROKEN)
def test_broken_promise_is_named(breach: str) -> None:
    assert [words for words in judge(BROKEN[breach]) if words.startswith(breach)]


def test_dead_letter_need_not_have_been_handled() -> None:
    dead = replace(GOOD, executions=GOOD.executions[:1], events=GOOD.events[:2])
    assert judge(replace(dead, dead=frozenset({("g", 1)}))) == []


def test_event_published_again_under_another_number_is_allowed_on_request() -> None:
    twice = replace(GOOD, executions=[executed(0, at=0, seq=7), *GOOD.executions])
    twice = replace(twice, executions=[twice.executions[0], executed(0, at=2), executed(1, at=5)])
    assert (judge(twice) != [], judge(unnumbered(twice))) == (True, [])


def test_ledger_returns_what_was_written(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    for event in GOOD.events:
        ledger(event)
    ledger.stray("unheard")
    ledger.stalled(Stall(1, 2))
    ledger.close()
    told = Told(events=[*GOOD.events], stray=["unheard"], stalls=[Stall(1, 2)])
    assert read(tmp_path / "ledger") == told


def test_ledger_that_was_never_begun_is_empty(tmp_path: Path) -> None:
    assert read(tmp_path / "ledger") == Told(events=[], stray=[], stalls=[])


@pytest.mark.parametrize(
    ("stall", "is_blamed"),
    [(Stall(3, 8), False), (Stall(0, 1), True), (Stall(4, 5), False), (Stall(6, 9), True)],
)
def test_handler_counts_until_its_process_stands_still(stall: Stall, is_blamed: bool) -> None:
    """It runs from 1 to 6, the next one from 4 on."""
    long = replace(executed(0, at=1), worker="stalled", ended_at=6)
    record = replace(GOOD, executions=[long, executed(1, at=4)], stalls={"stalled": [stall]})
    assert bool(judge(record)) is is_blamed


def plans(seed: int) -> list[list[Any]]:
    """Return the beginning of all that is left to chance."""
    plan, nowhere = Plan(seed=seed, seconds=1.0), cast("Any", None)
    sources = (
        Stream(["a", "b", "c"], plan.chance("publisher")),
        Fleet(plan, url="", database="", folder=Path()),
        Refusals(nowhere, plan.chance("refusals")),
        Losses(nowhere, plan.chance("losses")),
    )
    return [[source.next() for _ in range(50)] for source in sources]


def test_same_seed_is_the_same_plan() -> None:
    assert plans(7) == plans(7)


def test_other_seed_is_another_plan() -> None:
    for one, other in zip(plans(7), plans(8), strict=True):
        assert one != other


def test_few_groups_get_most_of_the_events() -> None:
    stream = Stream([str(number) for number in range(12)], Plan(seed=7, seconds=1.0).chance("x"))
    groups = [stream.next()[0] for _ in range(500)]
    assert groups.count("0") > 5 * groups.count("11") > 0
