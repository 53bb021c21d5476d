"""The number of partitions, and how programs go over to another one together."""

import dataclasses
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairlane import ConfigurationError
from fairlane.lease.settings import MAX_PARTITIONS, REREAD, SWITCH, Partitioning, partition_count

NOW = 1_000.0


def of(partitions: int) -> Partitioning:
    return Partitioning.stored({"partitions": partitions})


def test_settings_that_say_nothing_mean_one_partition() -> None:
    assert Partitioning.stored({}) == Partitioning()
    assert Partitioning().placing(NOW) == Partitioning().span == 1


def test_settings_of_an_earlier_release_say_only_the_number() -> None:
    assert of(4) == Partitioning(partitions=4, former=4, span=4)


def test_settings_are_stored_as_they_are_read() -> None:
    changed = of(4).changed(9, now=NOW)
    assert Partitioning.stored(changed.document()) == changed
    assert set(changed.document()) == {field.name for field in dataclasses.fields(Partitioning)}


@pytest.mark.parametrize(
    "wrong",
    [
        {"partitions": 0},
        {"partitions": "4"},
        {"former": None},
        {"span": 2.0},
        {"switch_at": "soon"},
        {"switch_at": float("nan")},
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="the stored"):
        Partitioning.stored({"partitions": 4, **wrong})


@pytest.mark.parametrize(("before", "after"), [(1, 8), (8, 1), (3, 4)])
def test_change_takes_effect_when_every_program_knows_of_it(before: int, after: int) -> None:
    changed = of(before).changed(after, now=NOW)
    assert changed.placing(NOW + SWITCH - 0.001) == before
    assert changed.placing(NOW + SWITCH) == after
    assert SWITCH >= 2 * REREAD


@pytest.mark.parametrize(("before", "after"), [(1, 8), (8, 1), (3, 4)])
def test_claimers_look_into_the_partitions_of_both_numbers(before: int, after: int) -> None:
    assert of(before).changed(after, now=NOW).span == max(before, after)


def test_change_during_a_change_places_on_by_the_number_that_is_in_effect() -> None:
    changed = of(4).changed(16, now=NOW).changed(2, now=NOW + 1)
    assert changed.placing(NOW + 2) == 4
    assert changed.placing(NOW + 1 + SWITCH) == 2
    assert changed.span == 16


def test_change_after_a_change_knows_what_may_be_left_of_the_first() -> None:
    changed = of(16).changed(4, now=NOW).changed(2, now=NOW + SWITCH)
    assert changed.placing(NOW + SWITCH + 1) == 4
    assert changed.span == 16


def test_claimers_may_look_at_less_when_nobody_places_there_any_more() -> None:
    changed = of(8).changed(2, now=NOW)
    assert not changed.may_narrow(NOW + SWITCH)
    assert changed.may_narrow(NOW + 2 * SWITCH)
    assert changed.narrowed().span == 2


def test_growth_leaves_nothing_to_narrow() -> None:
    assert not of(2).changed(8, now=NOW).may_narrow(NOW + 2 * SWITCH)


PAUSES = st.floats(0.0, 200.0)
CHANGES = st.lists(st.tuples(PAUSES, st.integers(1, 9)), min_size=1, max_size=4)
AGES = st.floats(0.0, REREAD)


@given(changes=CHANGES, later=st.floats(0.0, SWITCH + REREAD), age=AGES, other_age=AGES)
@example(changes=[(99.0, 9)], later=REREAD - 1, age=0.0, other_age=REREAD)
@example(changes=[(99.0, 1)], later=REREAD - 1, age=REREAD, other_age=0.0)
def test_claimer_never_misses_a_partition_into_which_something_is_put(
    changes: list[tuple[float, int]], later: float, age: float, other_age: float
) -> None:
    """Two programs have read the settings, each at some time within `REREAD` seconds.

    Some time after the last change one puts something somewhere, and the other one claims.
    """
    history = [(0.0, of(3))]
    for pause, number in changes:
        at, settings = history[-1]
        history.append((at + pause, settings.changed(number, now=at + pause)))
    now = history[-1][0] + later

    def known(since: float) -> Partitioning:
        return [settings for at, settings in history if at <= max(0.0, now - since)][-1]

    assert known(age).placing(now) <= known(other_age).span


@pytest.mark.parametrize("value", [1, 7, MAX_PARTITIONS])
def test_number_of_partitions_is_what_it_is(value: int) -> None:
    assert partition_count("partitions", value) == value


@pytest.mark.parametrize("value", [0, -1, MAX_PARTITIONS + 1, 1.0, "4", None, True])
def test_number_of_partitions_is_checked(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="partitions must be an int from 1 to 1024"):
        partition_count("partitions", value)
