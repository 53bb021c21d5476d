"""How many partitions? A simulation of claimers that compete for the heads of index ranges.

Its costs were fitted to two published tables (`--fit` shows how well). It recommends the fewest
partitions that come close to the fastest, for claimers that do nothing but claim.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks._contention_published import FITTED, calibrated, fit_table, rough
from benchmarks._contention_simulation import Costs, Outcome, Workload, simulate

__all__ = ("Choice", "compared", "main", "recommended")

MOTOR = 130e-6
"""Client time of a command through Motor, in seconds, measured under concurrency."""

_NEAR = 1.1
"""The fit is no nearer to the truth than this, so smaller differences mean nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a number of partitions leads to."""

    partitions: int
    outcome: Outcome


def compared(workload: Workload, costs: Costs, *, seed: int = 1) -> list[Choice]:
    """Simulate 1, 2, 4... partitions, up to four for each claimer, one seed for all."""
    choices, partitions = [], 1
    while partitions <= 4 * workload.claimers:
        trial = replace(workload, partitions=partitions)
        outcome = simulate(trial, costs, seed=seed)
        choices.append(Choice(partitions=partitions, outcome=outcome))
        partitions *= 2
    return choices


def recommended(choices: Sequence[Choice]) -> int:
    """Return the fewest partitions whose time is within a tenth of the shortest."""
    limit = _NEAR * min(choice.outcome.seconds for choice in choices)
    return min(choice.partitions for choice in choices if choice.outcome.seconds <= limit)


def table(choices: Sequence[Choice], depth: int) -> Iterator[str]:
    yield "partitions  seconds  claims/s  conflicts/claim  misses/claim  commands/claim"
    for choice in choices:
        outcome = choice.outcome
        yield (
            f"{choice.partitions:10}  {outcome.seconds:7.2f}  {depth / outcome.seconds:8.0f}"
            f"  {outcome.conflicts / depth:15.2f}  {outcome.misses / depth:12.2f}"
            f"  {outcome.commands / depth:14.2f}"
        )


def advice(options: argparse.Namespace) -> Iterator[str]:
    workload = Workload(
        claimers=options.claimers,
        depth=options.depth,
        partitions=1,
        processes=options.processes or options.claimers,
        stays=options.stays,
    )
    costs = replace(
        FITTED, cores=options.cores, client=MOTOR, round_trip=options.round_trip / 1_000
    )
    choices = compared(workload, costs, seed=options.seed)
    yield from table(choices, options.depth)
    yield (
        f"\nRecommended: {recommended(choices)} partitions for {options.claimers} claimers at a "
        f"depth of {options.depth:,}: the fewest within 10 % of the shortest time.\n"
        "A model's advice: measure before you rely on it."
    )


def calibration(cores: float) -> Iterator[str]:
    near = calibrated(rough(cores), scale=10, rounds=8)
    costs = calibrated(near, scale=1, rounds=4)
    yield repr(costs)
    yield from fit_table(costs)


def plot(path: Path) -> Iterator[str]:
    # Only this needs matplotlib.
    from benchmarks._contention_plot import draw

    draw(path)
    yield f"drawn: {path}"


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--claimers", type=_positive, default=64)
    parser.add_argument("--depth", type=_positive, default=20_000, help="ready documents")
    parser.add_argument("--cores", type=float, default=FITTED.cores, help="of the server")
    parser.add_argument("--processes", type=_positive, help="of clients (one for each claimer)")
    parser.add_argument("--round-trip", type=float, default=0.1, help="in milliseconds")
    parser.add_argument("--stays", action="store_true", help="claimed documents stay in range")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fit", action="store_true", help="compare with the published tables")
    parser.add_argument("--scale", type=_positive, default=1, help="of --fit: simulate a part only")
    parser.add_argument("--calibrate", action="store_true", help="fit the costs anew (an hour)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="needs fairlane[bench]")
    return parser.parse_args(argv)


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _report(options: argparse.Namespace) -> Iterator[str]:
    if options.calibrate:
        return calibration(options.cores)
    if options.fit:
        return fit_table(scale=options.scale, seed=options.seed)
    return plot(options.plot) if options.plot else advice(options)


def main(argv: Sequence[str] | None = None) -> None:
    for line in _report(arguments(argv)):
        print(line)  # noqa: T201


if __name__ == "__main__":
    main()
