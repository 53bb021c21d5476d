"""The simulation of competing claimers, and what is concluded from it."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from benchmarks._contention_engine import Engine, Process, Queue
from benchmarks._contention_published import FITTED, PUBLISHED, predicted
from benchmarks._contention_search import least_squares
from benchmarks._contention_simulation import Outcome, Workload, estimate, simulate
from benchmarks.contention_model import Choice, main, recommended

CLAIMERS = Workload(claimers=16, depth=500, partitions=4, processes=16)
VARIANTS = (
    CLAIMERS,
    replace(CLAIMERS, stays=True),
    replace(CLAIMERS, stays=True, restarts=False),
    replace(CLAIMERS, counts=True, reads_back=False),
    replace(CLAIMERS, processes=1, pool=3),
    replace(CLAIMERS, partitions=64, depth=10),
)


def per_partitions(workload: Workload, *counts: int) -> Iterator[Outcome]:
    for count in counts:
        yield simulate(replace(workload, partitions=count), FITTED)


def outcome(seconds: float) -> Outcome:
    return Outcome(seconds=seconds, drained=seconds, conflicts=0, misses=0, commands=0, claims=b"")


def test_same_seed_gives_same_outcome() -> None:
    assert simulate(CLAIMERS, FITTED, seed=5) == simulate(CLAIMERS, FITTED, seed=5)


def test_other_seed_gives_other_outcome() -> None:
    assert simulate(CLAIMERS, FITTED, seed=5) != simulate(CLAIMERS, FITTED, seed=6)


@pytest.mark.parametrize("workload", VARIANTS, ids=range(len(VARIANTS)))
def test_every_document_is_claimed_once(workload: Workload) -> None:
    assert simulate(workload, FITTED).claims == bytes([1]) * workload.depth


@pytest.mark.parametrize("workload", VARIANTS, ids=range(len(VARIANTS)))
def test_one_claimer_never_conflicts(workload: Workload) -> None:
    assert simulate(replace(workload, claimers=1), FITTED).conflicts == 0


def test_claimers_of_one_partition_conflict() -> None:
    assert simulate(replace(CLAIMERS, partitions=1), FITTED).conflicts > CLAIMERS.depth


def test_others_conflict_until_a_write_commits() -> None:
    pair = Workload(claimers=2, depth=2, partitions=1, processes=2)
    assert simulate(pair, replace(FITTED, write=1.0)).conflicts > 10


def test_conflicts_fall_with_partitions() -> None:
    conflicts = [each.conflicts for each in per_partitions(CLAIMERS, 1, 4, 16, 64)]
    assert conflicts == sorted(conflicts, reverse=True)
    assert conflicts[-1] < conflicts[0] / 10


def test_empty_sweeps_cost_more_with_partitions_at_low_depth() -> None:
    shallow = replace(CLAIMERS, depth=20)
    outcomes = list(per_partitions(shallow, 8, 32, 128))
    assert [each.misses for each in outcomes] == sorted(each.misses for each in outcomes)
    assert outcomes[-1].seconds > 3 * outcomes[0].seconds


def test_claimer_rests_only_after_missing_every_partition() -> None:
    lonely = Workload(claimers=1, depth=1, partitions=32)
    assert all(simulate(lonely, FITTED, seed=seed).misses >= 32 for seed in range(20))


def test_rest_after_every_partition_takes_more_misses_than_rest_by_count() -> None:
    many = replace(CLAIMERS, partitions=32)
    everywhere, counting = (simulate(replace(many, counts=by), FITTED) for by in (False, True))
    assert everywhere.misses > 1.1 * counting.misses


@pytest.mark.parametrize(("stays", "is_slower"), [(True, True), (False, False)])
def test_depth_slows_claims_only_where_claimed_documents_stay(stays: bool, is_slower: bool) -> None:
    workload = Workload(claimers=4, depth=500, partitions=1, stays=stays)
    shallow, deep = (simulate(replace(workload, depth=n), FITTED).drained / n for n in (500, 5_000))
    assert (deep > 1.2 * shallow) == is_slower


def test_scaling_down_hardly_changes_the_outcome() -> None:
    workload = Workload(claimers=32, depth=8_000, partitions=8, stays=True)
    whole, part = (estimate(workload, FITTED, scale=scale) for scale in (1, 4))
    assert part.seconds == pytest.approx(whole.seconds, rel=0.1)
    assert part.conflicts == pytest.approx(whole.conflicts, rel=0.1)


def test_fitted_costs_come_near_a_published_row() -> None:
    row = PUBLISHED[2]
    found = predicted(row)
    assert found.seconds == pytest.approx(row.seconds, rel=0.2)
    assert found.conflicts == pytest.approx(row.conflicts, rel=0.2)


@pytest.mark.parametrize(("cores", "ends"), [(1, [2.0, 3.0]), (2, [1.0, 2.0]), (9, [1.0, 2.0])])
def test_processes_share_the_cores_equally(cores: float, ends: list[float]) -> None:
    engine, ended = Engine(cores), []

    def process(amount: float) -> Process:
        yield engine.cores, amount
        ended.append(engine.now)

    engine.ready.extend([process(1.0), process(2.0)])
    engine.run()
    assert ended == pytest.approx(ends)


def test_place_in_a_queue_goes_to_the_one_who_waits_longest() -> None:
    engine, served = Engine(1), []
    queue = Queue(engine, 1)

    def process(name: str) -> Process:
        yield queue, 1
        yield engine.timer, 1.0
        served.append((name, engine.now))
        queue.leave()

    engine.ready.extend([process("first"), process("second"), process("third")])
    engine.run()
    assert served == [("first", 1.0), ("second", 2.0), ("third", 3.0)]


def test_recommendation_is_the_fewest_partitions_near_the_best() -> None:
    times = {1: 9.0, 2: 5.0, 4: 4.2, 8: 4.0, 16: 4.1}
    choices = [Choice(partitions=n, outcome=outcome(time)) for n, time in times.items()]
    assert recommended(choices) == 4


def test_command_prints_a_recommendation(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--claimers", "2", "--depth", "100"])
    assert "Recommended: " in capsys.readouterr().out


@pytest.mark.parametrize("argument", ["--claimers", "--depth", "--scale"])
def test_command_refuses_zero(argument: str) -> None:
    with pytest.raises(SystemExit):
        main([argument, "0"])


def test_search_finds_the_parameters_of_a_known_curve() -> None:
    def residuals(values: list[float]) -> list[float]:
        slope, offset = values
        return [slope * x + offset - (3.0 * x + 0.5) for x in (0.0, 1.0, 2.0)]

    assert least_squares(residuals, [1.0, 1.0], rounds=30) == pytest.approx([3.0, 0.5], rel=0.01)
