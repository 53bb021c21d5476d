"""One worker process of the demo: `python -m fairlane.cli.demo._worker`.

It reads its plan as one line of JSON from standard input (a URL may hold a password, and arguments
are public), says "ready" on standard output, and works until standard input ends: when the parent
closes it, and also when the parent has died.
"""

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from fairlane.cli.demo import handling
from fairlane.cli.demo.crew import Work, WorkerPlan
from fairlane.cli.demo.handling import DeliberateFailure
from fairlane.cli.demo.jobs import handling as jobs_handling
from fairlane.cli.demo.records import Recorder
from fairlane.worker import WorkerPool

__all__ = ("main",)

Pool = AbstractAsyncContextManager[WorkerPool[Any]]

STDIN = 0
LONGEST_GOODBYE = 4.0
POOLS: dict[Work, Callable[[WorkerPlan, Recorder], Pool]] = {
    "events": handling.pool,
    "jobs": jobs_handling.pool,
}


def log_what_is_not_planned() -> None:
    """Log to standard error, which the parent shows if this process ends by itself."""

    def is_unplanned(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, DeliberateFailure)

    handler = logging.StreamHandler()
    handler.addFilter(is_unplanned)
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


async def work(plan: WorkerPlan, recorder: Recorder) -> None:
    """Run the pool until standard input ends."""
    async with POOLS[plan.work](plan, recorder) as pool:
        # A thread: an event loop cannot wait for a pipe on every platform. A daemon, and on the
        # bare descriptor: a pool that fails must not wait for it.
        threading.Thread(target=_stop_at_end_of_input, args=(pool,), daemon=True).start()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await pool.run()


def _stop_at_end_of_input(pool: WorkerPool[Any]) -> None:
    while os.read(STDIN, 1):
        pass
    pool.stop()
    time.sleep(LONGEST_GOODBYE)
    os._exit(1)  # without a parent, perhaps without a server: nobody would end us


def main() -> None:
    with open(STDIN, "rb", buffering=0, closefd=False) as stdin:
        plan = WorkerPlan.from_json(stdin.readline())
    log_what_is_not_planned()
    recorder = Recorder(Path(plan.journal), plan.name)
    try:
        asyncio.run(work(plan, recorder))
    finally:
        recorder.close()


if __name__ == "__main__":
    main()
