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
from pathlib import Path

from fairlane.cli.demo.input import Json
from fairlane.cli.demo.plan import BACKOFF, MAX_ATTEMPTS, WorkerPlan, fails_first, pause
from fairlane.cli.demo.records import Delivery, Recorder, digest
from fairlane.model import Lease
from fairlane.transport import AsyncMongoTransport
from fairlane.worker import WorkerPool

__all__ = ("main",)

STDIN = 0
DRAIN_TIMEOUT = 3.0
LONGEST_GOODBYE = 4.0


class DeliberateFailure(Exception):
    """The planned failure of a first delivery."""


def log_what_is_not_planned() -> None:
    """Log to standard error, which the parent shows if this process ends by itself."""

    def is_unplanned(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, DeliberateFailure)

    handler = logging.StreamHandler()
    handler.addFilter(is_unplanned)
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


class Handler:
    """Works a moment on each event, fails where the plan says so, and records both ends."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    async def __call__(self, lease: Lease[dict[str, Json]]) -> None:
        delivery = _delivery(lease)
        with self._recorder.execution(delivery):
            await asyncio.sleep(pause(delivery.group, delivery.index))
            if delivery.attempt == 1 and fails_first(delivery.group, delivery.index):
                raise DeliberateFailure(f"first delivery of seq {delivery.seq} fails by plan")


def _delivery(lease: Lease[dict[str, Json]]) -> Delivery:
    index = lease.event["index"]
    assert isinstance(index, int)
    return Delivery(
        group=lease.group_id,
        index=index,
        seq=lease.seq,
        attempt=lease.attempt,
        digest=digest(lease.event["event"]),
    )


async def work(plan: WorkerPlan, recorder: Recorder) -> None:
    """Run the pool until standard input ends."""
    async with AsyncMongoTransport[dict[str, Json]].from_url(
        plan.url, plan.database, driver=plan.driver, connect_timeout=5.0
    ) as transport:
        pool = WorkerPool(
            transport,
            Handler(recorder),
            concurrency=plan.claimers,
            claimers=plan.claimers,
            worker_id=plan.name,
            visibility=plan.visibility,
            max_attempts=MAX_ATTEMPTS,
            backoff=BACKOFF,
            poll_interval=0.2,
            drain_timeout=DRAIN_TIMEOUT,
        )
        # A thread: an event loop cannot wait for a pipe on every platform. A daemon, and on the
        # bare descriptor: a pool that fails must not wait for it.
        threading.Thread(target=_stop_at_end_of_input, args=(pool,), daemon=True).start()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await pool.run()


def _stop_at_end_of_input(pool: WorkerPool) -> None:
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
