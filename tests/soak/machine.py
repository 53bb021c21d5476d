"""One worker process of the soak: `python -m soak.machine`, on a machine whose clock is wrong.

It reads its plan as one line of JSON from standard input, says "ready", and works until standard
input ends: when the parent closes it, and also when the parent has died.
"""

import time
from types import ModuleType

from soak.plan import MachinePlan

__all__ = ("main",)

STDIN = 0
LEAP_AFTER = 3.0


def set_clock(module: ModuleType, plan: MachinePlan) -> None:
    """Let this process believe that it is another time, and leap to yet another one later."""
    right, leaps_at = time.time, time.monotonic() + LEAP_AFTER

    def wrong() -> float:
        return right() + plan.skew + (plan.leap if time.monotonic() > leaps_at else 0.0)

    vars(module)["time"] = wrong


def main() -> None:
    with open(STDIN, "rb", buffering=0, closefd=False) as stdin:
        plan = MachinePlan.from_json(stdin.readline())
    set_clock(time, plan)
    from soak.work import run  # not before the clock is wrong for everything that it imports

    run(plan)


if __name__ == "__main__":
    main()
