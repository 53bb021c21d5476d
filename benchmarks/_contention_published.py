"""The two published tables of the partitioned job claim, and how near the model comes to them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks._contention_search import least_squares, root_mean_square
from benchmarks._contention_simulation import Costs, Outcome, Workload, estimate

__all__ = ("FITTED", "PUBLISHED", "Published", "calibrated", "fit_table", "predicted", "rough")


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A row of a published table: MongoDB Enterprise 8.0.4, one client process."""

    jobs: int
    claimers: int
    partitions: int
    seconds: float
    conflicts: int
    reads_back: bool = True

    @property
    def label(self) -> str:
        command = "sorted" if self.reads_back else "findOneAndUpdate"
        return f"{self.jobs:,} jobs, {self.claimers} claimers, {command}, {self.partitions} p"

    @property
    def workload(self) -> Workload:
        """What was run: claimed jobs stayed in the index range, and the pool had its default."""
        return Workload(
            claimers=self.claimers,
            depth=self.jobs,
            partitions=self.partitions,
            reads_back=self.reads_back,
            stays=True,
            counts=True,
        )


def _published(jobs: int, claimers: int, *rows: tuple[int, float, int]) -> Iterator[Published]:
    for partitions, seconds, conflicts in rows:
        yield Published(
            jobs=jobs,
            claimers=claimers,
            partitions=partitions,
            seconds=seconds,
            conflicts=conflicts,
        )


PUBLISHED = (
    Published(
        jobs=50_000,
        claimers=256,
        partitions=1,
        seconds=268.218,
        conflicts=216_403,
        reads_back=False,
    ),
    *_published(50_000, 256, (1, 256.331, 189_751), (32, 14.198, 55_814)),
    *_published(
        100_000,
        512,
        (32, 39.385, 127_951),
        (64, 24.451, 50_727),
        (128, 21.193, 18_197),
        (256, 22.194, 5_979),
    ),
)

FREE = ("command", "walk", "view", "work", "write", "conflict", "client")


def rough(cores: float) -> Costs:
    """Return round numbers to start from: in time, server costs count per core."""
    return Costs(
        cores=cores,
        command=50e-6,
        walk=0.08e-6 * cores,
        view=0.003,
        work=30e-6 * cores,
        write=0.1e-6 * cores,
        conflict=15e-6 * cores,
        client=55e-6,
        round_trip=100e-6,
    )


FITTED = Costs(
    cores=16,
    command=54.07e-6,
    walk=1.381e-6,
    view=2.670e-3,
    work=541.6e-6,
    write=1.790e-6,
    conflict=260.1e-6,
    client=52.89e-6,
    round_trip=100e-6,
)
"""What `--calibrate` found."""


def predicted(row: Published, costs: Costs = FITTED, *, scale: int = 1, seed: int = 1) -> Outcome:
    return estimate(row.workload, costs, scale=scale, seed=seed)


def calibrated(start: Costs, *, scale: int, rounds: int, restarts: bool = True) -> Costs:
    """Search from a start for the costs that fit all times and all conflict counts.

    Scaled down it is quick and finds the region, but its times come out up to a fifth too long.
    What the start says costs nothing stays so.
    """

    def residuals(values: list[float]) -> list[float]:
        return deviations(_with(start, free, values), scale=scale, restarts=restarts)

    free = [name for name in FREE if getattr(start, name)]
    found = least_squares(residuals, [getattr(start, name) for name in free], rounds=rounds)
    return _with(start, free, found)


def _with(costs: Costs, names: list[str], values: list[float]) -> Costs:
    return replace(costs, **dict(zip(names, values, strict=True)))


def deviations(costs: Costs, *, scale: int, restarts: bool = True) -> list[float]:
    """Return the logarithm of predicted to published for each time, then each conflict count."""
    outcomes = [
        estimate(replace(row.workload, restarts=restarts), costs, scale=scale) for row in PUBLISHED
    ]
    pairs = list(zip(outcomes, PUBLISHED, strict=True))
    return [
        *(math.log(outcome.seconds / row.seconds) for outcome, row in pairs),
        *(math.log(max(outcome.conflicts, 1) / row.conflicts) for outcome, row in pairs),
    ]


def fit_table(costs: Costs = FITTED, *, scale: int = 1, seed: int = 1) -> Iterator[str]:
    """Write the published and the predicted figures beside each other, row by row."""
    errors: list[float] = []
    yield "| run | published s | model s | error | published conflicts | model | error |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for row in PUBLISHED:
        outcome = predicted(row, costs, scale=scale, seed=seed)
        slower = outcome.seconds / row.seconds
        more = max(outcome.conflicts, 1) / row.conflicts
        errors += (math.log(slower), math.log(more))
        yield (
            f"| {row.label} | {row.seconds:.1f} | {outcome.seconds:.1f} | {slower - 1:+.0%} "
            f"| {row.conflicts:,} | {outcome.conflicts:,} | {more - 1:+.0%} |"
        )
    yield f"\nRoot mean square of the logarithms of the ratios: {root_mean_square(errors):.3f}"
