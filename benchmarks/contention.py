"""What does a claim cost when many claim at once? Groups of one message, or jobs; none is settled.

Each claimer claims for itself, on purpose, until it finds nothing; all begin together. After each
run it is checked that everything was claimed exactly once. Several values of an option are run
one after the other, so that their ratios come from one run.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks._claims_case import SCENARIOS, Case, Scenario, cases
from benchmarks._claims_fleet import ClaimerDied
from benchmarks._claims_products import PRODUCTS
from benchmarks._claims_report import DEFINITIONS, Figures, ratios
from benchmarks._claims_run import Ground, run
from benchmarks._measuring import CLIENTS, context, served
from fairlane.lease.strategy import STRATEGIES, checked_strategy

__all__ = ("main",)

INTERRUPTED = 130


async def measure(all_cases: Sequence[Case], ground: Ground, rounds: int) -> dict[str, Any]:
    """Run every case once in each round; return what is printed."""
    runs: list[dict[str, object]] = []
    measured: dict[Case, list[Figures]] = {}
    for number in range(1, rounds + 1):
        for case in all_cases:
            figures, violations = await run(case, ground)
            measured.setdefault(case, []).append(figures)
            runs.append(
                {
                    "run": f"{case}, round {number}",
                    "partitions": case.scenario.partitions,
                    **asdict(figures),
                    "violations": violations,
                }
            )
    return {"runs": runs, "ratios": list(ratios(measured))}


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", help="another server instead of a local one")
    parser.add_argument("--driver", choices=sorted(CLIENTS), default="motor")
    parser.add_argument("--product", choices=sorted(PRODUCTS), default="groups")
    parser.add_argument("--groups", "--jobs", type=positive, nargs="+", default=[2_000])
    parser.add_argument("--claimers", type=positive, nargs="+", default=[16])
    parser.add_argument("--processes", type=positive, default=2)
    parser.add_argument("--batch", type=positive, default=1, help="above 1: by claim_many")
    parser.add_argument("--rounds", type=positive, default=1, help="repeat everything")
    parser.add_argument(
        "--scenario",
        choices=SCENARIOS,
        nargs="+",
        help="one: find_one_and_update; sorted, p8...: sorted updates, on so many partitions",
    )
    parser.add_argument("--partitions", type=positive, nargs="+", help="without --scenario; 32")
    parser.add_argument("--strategy", choices=STRATEGIES, help="without --scenario; auto")
    options = parser.parse_args(given)
    if options.scenario and (options.partitions or options.strategy):
        parser.error("--scenario fixes --partitions and --strategy")
    return options


def scenarios(options: argparse.Namespace) -> list[Scenario]:
    """Return what was asked for: by name, or made of a strategy and numbers of partitions."""
    if options.scenario:
        return [SCENARIOS[name] for name in options.scenario]
    strategy = checked_strategy(options.strategy or "auto")
    return [
        Scenario(name=f"{strategy} on {number}", partitions=number, strategy=strategy)
        for number in options.partitions or [32]
    ]


def measured(options: argparse.Namespace) -> dict[str, Any]:
    all_cases = list(cases(scenarios(options), options.groups, options.claimers))
    with served(options.url) as server:
        ground = Ground(
            server=server,
            product=options.product,
            driver=options.driver,
            processes=options.processes,
            batch=options.batch,
        )
        result = asyncio.run(measure(all_cases, ground, options.rounds))
    settings = {"product": options.product, "processes": options.processes, "batch": options.batch}
    head = {**context("contention", server, options.driver), **settings}
    return {**head, "definitions": DEFINITIONS, **result}


def main() -> None:
    try:
        result = measured(arguments())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except ClaimerDied as death:
        sys.exit(str(death))
    print(json.dumps(result, indent=2))  # noqa: T201
    wrong = [f"{each['run']}: {text}" for each in result["runs"] for text in each["violations"]]
    if wrong:
        sys.exit("\n".join(["invariants that do not hold", *wrong]))


if __name__ == "__main__":
    main()
