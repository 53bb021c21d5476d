"""Which runs of the contention benchmark there are, and who claims in them."""

import pytest
from benchmarks._claims_case import SCENARIOS, shared_out
from benchmarks.contention import arguments, scenarios


@pytest.mark.parametrize(
    ("claimers", "processes", "each"), [(64, 2, [32, 32]), (7, 3, [2, 2, 3]), (2, 4, [1, 1])]
)
def test_claimers_are_shared_out_over_the_processes(
    claimers: int, processes: int, each: list[int]
) -> None:
    assert [len(numbers) for numbers in shared_out(claimers, processes)] == each


def test_every_claimer_has_a_number_of_its_own() -> None:
    assert [n for numbers in shared_out(7, 3) for n in numbers] == list(range(7))


def test_scenarios_are_taken_by_name() -> None:
    assert scenarios(arguments(["--scenario", "p8", "one"])) == [SCENARIOS["p8"], SCENARIOS["one"]]


def test_every_number_of_partitions_is_a_scenario() -> None:
    found = scenarios(arguments(["--partitions", "4", "16", "--strategy", "update_one"]))
    assert [(each.partitions, each.strategy) for each in found] == [
        (4, "update_one"),
        (16, "update_one"),
    ]


def test_auto_is_not_replaced_on_a_repaired_server() -> None:
    (scenario,) = scenarios(arguments([]))
    assert scenario.strategy_on(is_repaired=True) == "auto"


def test_scenario_takes_sorted_updates_of_a_repaired_server() -> None:
    assert SCENARIOS["p8"].strategy_on(is_repaired=True) == "update_one"


def test_scenario_lets_the_library_choose_on_other_servers() -> None:
    assert SCENARIOS["p8"].strategy_on(is_repaired=False) == "auto"


def test_scenario_one_has_no_sorted_updates_anywhere() -> None:
    one = SCENARIOS["one"]
    assert one.strategy_on(is_repaired=True) == one.strategy_on(is_repaired=False)


@pytest.mark.parametrize("extra", [["--partitions", "4"], ["--strategy", "auto"]])
def test_what_a_scenario_fixes_cannot_be_given_as_well(extra: list[str]) -> None:
    with pytest.raises(SystemExit):
        arguments(["--scenario", "one", *extra])


@pytest.mark.parametrize("number", ["0", "-1", "x"])
def test_numbers_are_positive(number: str) -> None:
    with pytest.raises(SystemExit):
        arguments(["--claimers", number])
