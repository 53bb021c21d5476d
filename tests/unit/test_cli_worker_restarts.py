"""When a worker process that has ended is started again: later and later, and in the end never."""

import pytest

from fairlane.cli.worker.restarts import Life, Restarts
from fairlane.retry import Backoff

EXACT = Backoff(base=0.5, cap=30.0, jitter=0.0)
CRASH = Life(status=1, seconds=2.0, has_worked=True)
LONG_LIFE = Life(status=-9, seconds=60.0, has_worked=True)
IN_VAIN = Life(status=1, seconds=2.0, has_worked=False)


@pytest.fixture
def restarts() -> Restarts:
    return Restarts(backoff=EXACT)


def test_delay_doubles_with_each_short_life_up_to_its_cap(restarts: Restarts) -> None:
    delays = [restarts.after(CRASH) for _ in range(9)]
    assert delays == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_a_long_life_begins_anew(restarts: Restarts) -> None:
    for _ in range(4):
        restarts.after(CRASH)
    assert [restarts.after(LONG_LIFE), restarts.after(CRASH)] == [0.5, 1.0]


def test_a_place_whose_processes_never_work_is_given_up(restarts: Restarts) -> None:
    delays = [restarts.after(IN_VAIN) for _ in range(8)]
    assert delays[-2:] == [30, None]
    assert restarts.count == 7


def test_one_that_has_worked_begins_the_count_anew(restarts: Restarts) -> None:
    lives = [*[IN_VAIN] * 7, CRASH, *[IN_VAIN] * 7]
    assert None not in [restarts.after(life) for life in lives]


def test_one_that_works_and_crashes_is_never_given_up(restarts: Restarts) -> None:
    assert None not in [restarts.after(CRASH) for _ in range(100)]


def test_delays_of_several_places_differ() -> None:
    assert len({Restarts().after(CRASH) for _ in range(5)}) == 5
