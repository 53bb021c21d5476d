"""Which index claims name: the rules of the choice."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.driver import Cost
from fairlane.lease.hints import Choice, Index, Sample, in_turn, winner_of

A: Index = (("partition", 1), ("type", 1))
B: Index = (("partition", 1), ("priority", -1))
C: Index = (("partition", 1),)

INDEXES = st.sampled_from([A, B, C])
COSTS = st.builds(
    Cost,
    keys=st.integers(min_value=0, max_value=9),
    documents=st.integers(min_value=0, max_value=9),
    milliseconds=st.integers(min_value=0, max_value=3),
)
SAMPLES_OF_THREE = st.lists(
    st.fixed_dictionaries({A: COSTS, B: COSTS, C: COSTS}), min_size=1, max_size=5
)
CHOICES = st.builds(
    Choice, index=INDEXES, is_measured=st.booleans(), challenger=st.none() | INDEXES
).filter(lambda choice: choice.index != choice.challenger)


def cost(examined: int, milliseconds: int = 0) -> Cost:
    return Cost(keys=examined, documents=0, milliseconds=milliseconds)


def won_by(winner: Index | None) -> list[Sample]:
    """Return a round with this winner, or without one, a tie."""
    return [{index: cost(1 if index == winner else 2) for index in (A, B, C)}]


def after(choice: Choice, *winners: Index | None) -> Choice:
    for winner in winners:
        choice = choice.after(won_by(winner))
    return choice


def test_less_examined_wins_however_long_it_took() -> None:
    slow = Cost(keys=1, documents=1, milliseconds=900)
    assert winner_of([{A: slow, B: Cost(keys=2, documents=1, milliseconds=0)}]) == A


@pytest.mark.parametrize("less", [{"keys": 3}, {"documents": 3}])
def test_keys_count_as_much_as_documents(less: dict[str, int]) -> None:
    more = {"keys": 4, "documents": 4, "milliseconds": 0}
    assert winner_of([{A: Cost(**more), B: Cost(**{**more, **less})}]) == B


def test_time_breaks_a_tie() -> None:
    assert winner_of([{A: cost(5, 3), B: cost(5, 2)}]) == B


def test_round_goes_to_the_lowest_median() -> None:
    """The sum would say A, and so would the best sample."""
    samples = [{A: cost(a), B: cost(b)} for a, b in [(0, 100), (9, 5), (9, 5)]]
    assert winner_of(samples) == B


@given(samples=SAMPLES_OF_THREE)
def test_winner_does_not_depend_on_the_order_of_the_candidates(samples: list[Sample]) -> None:
    turned = [dict(reversed(list(sample.items()))) for sample in samples]
    assert winner_of(turned) == winner_of(samples)


@given(costs=COSTS, number=st.integers(min_value=1, max_value=5))
def test_equal_candidates_have_no_winner(costs: Cost, number: int) -> None:
    assert winner_of([{A: costs, B: costs}] * number) is None


@given(choice=CHOICES)
@pytest.mark.parametrize("samples", [[], won_by(None)], ids=["failure", "tie"])
def test_choice_is_the_same_after_a_failure_or_a_tie(samples: list[Sample], choice: Choice) -> None:
    """A12.11 and A12.12."""
    assert choice.after(samples).index == choice.index


@given(index=INDEXES, samples=SAMPLES_OF_THREE)
def test_first_winner_is_taken_at_once(index: Index, samples: list[Sample]) -> None:
    """A12.10."""
    assert Choice(index=index).after(samples).index == (winner_of(samples) or index)


@pytest.mark.parametrize("nothing", [[], won_by(None)], ids=["failure", "tie"])
def test_round_without_a_winner_is_not_the_first(nothing: list[Sample]) -> None:
    """An empty queue at the start tells nothing; the first round that does counts."""
    assert Choice(index=A).after(nothing).after(won_by(B)).index == B


@given(winners=st.lists(st.none() | INDEXES, max_size=12))
def test_later_switch_needs_two_wins_in_a_row(winners: list[Index | None]) -> None:
    """A12.10."""
    choice = after(Choice(index=A), A)
    for number, winner in enumerate(winners):
        before, choice = choice.index, choice.after(won_by(winner))
        row = winners[max(0, number - 1) : number + 1]
        is_won = row == [winner, winner] and winner not in (None, before)
        assert choice.index == (winner if is_won else before)


@pytest.mark.parametrize("between", [None, A], ids=["tie", "win of the one in use"])
def test_row_of_wins_is_ended(between: Index | None) -> None:
    assert after(Choice(index=A), A, B, between, B).index == A


def test_failed_round_ends_the_row() -> None:
    """A12.11."""
    assert after(after(Choice(index=A), A, B).after([]), B).index == A


def test_wins_of_different_challengers_are_no_row() -> None:
    assert after(Choice(index=A), A, B, C, B).index == A


@given(
    number=st.integers(min_value=2, max_value=4), sample=st.integers(min_value=0, max_value=1_000)
)
def test_each_candidate_comes_first_in_its_turn(number: int, sample: int) -> None:
    candidates = [A, B, C, (*A, *B)][:number]
    orders = [in_turn(candidates, sample + each) for each in range(number)]
    assert all(Counter(order) == Counter(candidates) for order in orders)
    assert {order[0] for order in orders} == set(candidates)
