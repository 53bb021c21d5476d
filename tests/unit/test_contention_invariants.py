"""What the contention benchmark finds wrong: each of the seven invariants, violated on purpose."""

from benchmarks._claims_invariants import Stored, violations
from benchmarks._claims_records import Claimed

RETURNED = [Claimed(group=f"g{n}", token=f"t{n}", attempt=1) for n in range(3)]
STORED = [Stored(group=f"g{n}", token=f"t{n}", attempts=1) for n in range(3)]


def found(
    *,
    groups: int = 3,
    returned: list[Claimed] = RETURNED,
    stored: list[Stored] = STORED,
    second_sweep: tuple[str, ...] = (),
) -> set[str]:
    """Return the names of the invariants that do not hold."""
    wrong = violations(groups, returned=returned, stored=stored, second_sweep=second_sweep)
    return {each.partition(" (off by ")[0] for each in wrong}


def test_groups_claimed_once_each_violate_nothing() -> None:
    assert found() == set()


def test_a_group_that_nobody_got_violates_the_returned_count() -> None:
    assert found(groups=4) == {"returned count"}


def test_a_group_that_was_returned_twice_violates_distinct_ids() -> None:
    again = RETURNED[0]._replace(token="t1")
    assert found(returned=[RETURNED[0], again, RETURNED[2]]) >= {"distinct ids"}


def test_a_token_that_was_returned_twice_violates_distinct_tokens() -> None:
    again = RETURNED[1]._replace(token="t0")
    assert found(returned=[RETURNED[0], again, RETURNED[2]]) >= {"distinct tokens"}


def test_another_token_than_was_returned_violates_stored_tokens() -> None:
    assert found(stored=[STORED[0]._replace(token="x"), *STORED[1:]]) == {"stored tokens"}


def test_a_lock_that_nobody_got_violates_stored_tokens() -> None:
    unknown = Stored(group="g3", token="t3", attempts=1)
    assert found(stored=[*STORED, unknown]) == {"stored tokens"}


def test_a_second_attempt_that_was_returned_violates_every_attempt_1() -> None:
    second = RETURNED[0]._replace(attempt=2)
    assert found(returned=[second, *RETURNED[1:]]) == {"every attempt 1"}


def test_a_second_attempt_that_is_stored_violates_every_attempt_1() -> None:
    assert found(stored=[STORED[0]._replace(attempts=2), *STORED[1:]]) == {"every attempt 1"}


def test_a_token_that_is_stored_twice_violates_distinct_stored_tokens() -> None:
    again = STORED[1]._replace(token="t0")
    assert found(stored=[STORED[0], again, STORED[2]]) >= {"distinct stored tokens"}


def test_a_group_that_is_left_violates_the_empty_second_sweep() -> None:
    assert found(second_sweep=("g0",)) == {"empty second sweep"}


def test_a_violation_says_by_how_much() -> None:
    wrong = violations(3, returned=[], stored=[], second_sweep=[])
    assert wrong == ["returned count (off by 3)"]
