"""Soak the transport and the pool in trouble, and judge what comes out: `python -m soak`.

Worker processes die at random and believe in wrong clocks, the server refuses commands, replies get
lost. At the end all are stopped in the middle of their work, the clock goes an hour on, and one
claimer must find what is left.
"""

import argparse
import asyncio
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

from fairlane.testing import local_server
from soak.plan import Plan
from soak.run import Report, Soak

MINUTES = 3.0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="of trouble; default 3")
    parser.add_argument(
        "--seed", type=int, help="of all that is left to chance; default: a new one"
    )
    parser.add_argument("--machines", type=int, default=4, help="worker processes")
    parser.add_argument(
        "--trust-wall-clocks",
        action="store_true",
        help="let machines use their own wrong clocks: the soak must then find broken promises",
    )
    return parser.parse_args()


def main() -> int:
    options = arguments()
    plan = Plan(
        seed=secrets.randbelow(1_000_000) if options.seed is None else options.seed,
        seconds=options.minutes * 60,
        machines=options.machines,
        trusts_wall_clocks=options.trust_wall_clocks,
    )
    folder = Path(tempfile.mkdtemp(prefix="fairlane-soak-"))
    sys.stdout.write(f"seed {plan.seed}, {plan.seconds:g} s, books in {folder}\n")
    sys.stdout.flush()
    with local_server() as server:
        report = asyncio.run(Soak(plan, server.url, folder).run())
    sys.stdout.write(f"{server.name}: {report}\n")
    return _conclude(report, plan, folder)


def _conclude(report: Report, plan: Plan, folder: Path) -> int:
    if report.breaches:
        again = f"again: nox -s soak -- --seed {plan.seed} --minutes {plan.seconds / 60:g}"
        sys.stdout.write("\n".join(("BROKEN:", *report.breaches, again, "")))
        return 1
    sys.stdout.write("all invariants hold\n")
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
