"""What the contention benchmark concludes from the calls of its claimers."""

from dataclasses import replace

import pytest
from benchmarks._claims_case import SCENARIOS, Case, cases
from benchmarks._claims_records import Call, Claimed, Orders, Share
from benchmarks._claims_report import Figures, figures, ratios, returned

CASE = Case(scenario=SCENARIOS["one"], groups=100, claimers=4)


def call(began: float, ended: float, *groups: str) -> Call:
    return Call(began, ended, tuple(Claimed(group, f"t-{group}", 1) for group in groups))


def share(*calls: Call, **commands: int) -> Share:
    return Share(strategy="update_one", commands=commands, calls=calls)


def summed_up(*calls: Call, **commands: int) -> Figures:
    return figures([share(*calls, **commands)])


FIGURES = summed_up(call(0, 1, "a"), call(1, 2), update=2)


def measured(rates: dict[Case, list[float]]) -> dict[Case, list[Figures]]:
    return {
        case: [replace(FIGURES, claims_per_second=rate) for rate in rounds]
        for case, rounds in rates.items()
    }


def test_leases_of_all_processes_are_returned() -> None:
    shares = [share(call(0, 1, "a", "b")), share(call(0, 1, "c"), call(1, 2))]
    assert [each.group for each in returned(shares)] == ["a", "b", "c"]


def test_rate_is_of_the_time_until_the_last_lease() -> None:
    found = figures(
        [share(call(10, 11, "a", "b", "c")), share(call(10.5, 12, "d"), call(12, 20))],
    )
    assert (found.drained_seconds, found.rested_seconds) == (2.0, 10.0)
    assert found.claims_per_second == 2.0


def test_commands_of_all_processes_are_added_up() -> None:
    shares = [share(call(0, 1, "a", "b"), update=2, find=1), share(call(0, 1), update=3)]
    found = figures(shares, write_conflicts=7)
    assert found.commands == {"update": 5, "find": 1}
    assert found.commands_per_claim == 3.0


def test_latency_of_a_claim_leaves_out_what_found_nothing() -> None:
    found = summed_up(call(0, 0.5, "a"), call(1, 3))
    assert found.claim["p50_ms"] == 500.0
    assert found.empty_sweep["p50_ms"] == 2000.0


def test_claimers_that_found_nothing_at_all_have_no_rate() -> None:
    found = summed_up(call(0, 1), call(0, 2), update=2)
    assert (found.claims_per_second, found.claim, found.empty_sweeps) == (0.0, {}, 2)


def test_processor_time_of_the_server_is_shared_by_the_leases() -> None:
    found = figures([share(call(0, 1, "a", "b"), call(1, 2))], server_cpu=0.004)
    assert found.server_cpu_ms_per_claim == 2.0


def test_processor_time_of_another_server_is_not_known() -> None:
    assert summed_up(call(0, 1, "a"), call(1, 2)).server_cpu_ms_per_claim is None


def test_sweep_before_a_call_that_finds_something_is_early() -> None:
    found = summed_up(call(0, 1), call(2, 3, "a"), call(3, 4))
    assert (found.empty_sweeps, found.early_empty_sweeps) == (2, 1)


def test_sweep_during_a_call_that_finds_something_is_not_early() -> None:
    assert summed_up(call(0, 2), call(1, 3, "a")).early_empty_sweeps == 0


def test_different_strategies_are_all_named() -> None:
    other = replace(share(call(0, 1)), strategy="find_one_and_update")
    found = figures([share(call(0, 1)), other])
    assert found.strategy == "find_one_and_update and update_one"


def test_ratio_is_of_medians() -> None:
    more = replace(CASE, claimers=16)
    (ratio,) = ratios(measured({CASE: [1.0, 2.0, 99.0], more: [5.0, 6.0, 0.0]}))
    assert ratio["claims_per_second"] == 2.5


@pytest.mark.parametrize(
    "change", [{"scenario": SCENARIOS["p8"]}, {"groups": 200}, {"claimers": 16}]
)
def test_runs_that_differ_in_one_thing_are_compared(change: dict[str, object]) -> None:
    other = replace(CASE, **change)  # type: ignore[arg-type]
    assert [each["of"] for each in ratios(measured({CASE: [1.0], other: [1.0]}))] == [str(other)]


def test_runs_that_differ_in_two_things_are_not_compared() -> None:
    other = replace(CASE, groups=200, claimers=16)
    assert list(ratios(measured({CASE: [1.0], other: [1.0]}))) == []


def test_run_is_compared_with_the_one_next_to_it() -> None:
    others = [replace(CASE, claimers=claimers) for claimers in (16, 64)]
    found = ratios(measured({case: [1.0] for case in (CASE, *others)}))
    assert [(each["of"], each["to"]) for each in found] == [
        (str(others[0]), str(CASE)),
        (str(others[1]), str(others[0])),
    ]


def test_figure_without_a_base_has_no_ratio() -> None:
    (ratio,) = ratios(measured({CASE: [0.0], replace(CASE, claimers=16): [1.0]}))
    assert "claims_per_second" not in ratio


def test_what_a_process_did_survives_json() -> None:
    done = share(call(0.25, 1.5, "a", "é\n"), call(2, 3), update=4)
    assert Share.from_json(done.to_json()) == done
    assert "\n" not in done.to_json()


def test_orders_survive_json() -> None:
    orders = Orders(
        url="mongodb://u:p@h/",
        database="d",
        driver="motor",
        product="jobs",
        strategy="auto",
        batch=1,
        first=3,
        claimers=2,
    )
    assert Orders.from_json(orders.to_json()) == orders


def test_every_combination_is_a_case() -> None:
    scenarios = [SCENARIOS["one"], SCENARIOS["p8"]]
    assert len(set(cases(scenarios, [10, 20], [1, 2, 3]))) == 12
