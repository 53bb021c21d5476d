"""What a worker process does: a pool whose handler writes down what it does before the ack."""

import asyncio
import gc
import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from motor.motor_asyncio import AsyncIOMotorClient
from pymongo import AsyncMongoClient

from fairlane import AsyncMongoTransport, Lease, Reject, WorkerPool
from fairlane.cli.demo.records import Delivery, Recorder, digest, now
from soak.ledger import Ledger, Stall
from soak.plan import BACKOFF, LONGEST_GOODBYE, MAX_ATTEMPTS, VISIBILITY, MachinePlan

__all__ = ("Handler", "run")

STDIN = 0
CLIENTS: dict[str, Any] = {"motor": AsyncIOMotorClient, "pymongo": AsyncMongoClient}
APP_NAME = "soak-machine"
DRAIN_TIMEOUT = 4.0
BEAT = 0.05
LONGEST_STALL = VISIBILITY / 12
"""Half of what a pool leaves a handler to end before its lease does."""


class PlannedFailure(Exception):
    """A failure that the event asks for."""


class Faults(logging.Handler):
    """Notes what the library logs with a traceback, but for failures that were planned."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self._ledger = ledger

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and not isinstance(record.exc_info[1], PlannedFailure):
            self._ledger.stray(f"logged: {record.getMessage()}: {record.exc_info[1]!r}")


class Handler:
    """Does what the event says, between two lines of the journal."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    async def __call__(self, lease: Lease[dict[str, Any]]) -> None:
        event = lease.event
        with self._recorder.execution(delivery(lease)):
            await asyncio.sleep(event["pause"])
            if event["is_poison"]:
                raise Reject("poison")
            if lease.attempt <= event["failures"]:
                raise PlannedFailure


def delivery(lease: Lease[dict[str, Any]]) -> Delivery:
    return Delivery(
        group=lease.group_id,
        index=lease.event["index"],
        seq=lease.seq,
        attempt=lease.attempt,
        digest=digest(lease.event),
    )


def run(plan: MachinePlan) -> None:
    """Work until standard input ends; note what nobody hears."""
    recorder, ledger = Recorder(Path(plan.journal), plan.name), Ledger(Path(plan.ledger))
    logging.basicConfig(level=logging.ERROR, handlers=[logging.StreamHandler(), Faults(ledger)])
    sys.unraisablehook = lambda unraisable: ledger.stray(f"unraisable: {unraisable.exc_value!r}")
    try:
        asyncio.run(work(plan, recorder, ledger))
        gc.collect()
    finally:
        recorder.close()
        ledger.close()


async def work(plan: MachinePlan, recorder: Recorder, ledger: Ledger) -> None:
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: ledger.stray(f"{context['message']}: {context.get('exception')!r}")
    )
    client = CLIENTS[plan.driver](
        plan.url, retryWrites=plan.retries, retryReads=plan.retries, appname=APP_NAME
    )
    clock = time.time if plan.trusts_wall_clock else None
    transport = AsyncMongoTransport[dict[str, Any]](client, plan.database, clock=clock)
    pool = WorkerPool(
        transport,
        Handler(recorder),
        concurrency=plan.handlers,
        claimers=2,
        worker_id=plan.name,
        visibility=VISIBILITY,
        max_attempts=MAX_ATTEMPTS,
        backoff=BACKOFF,
        poll_interval=0.2,
        drain_timeout=DRAIN_TIMEOUT,
        on_event=ledger,
    )
    threading.Thread(target=_stop_at_end_of_input, args=(pool,), daemon=True).start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    try:
        async with asyncio.TaskGroup() as tasks:
            watch = tasks.create_task(watch_loop(ledger))
            await pool.run()
            watch.cancel()
    finally:
        closing = client.close()
        if closing is not None:
            await closing


async def watch_loop(ledger: Ledger) -> None:
    """Note when this process stands still, for ever."""
    while True:
        since = now()
        await asyncio.sleep(BEAT)
        stall = Stall(since, now())
        if stall.until - stall.since > LONGEST_STALL * 1e9:
            ledger.stalled(stall)


def _stop_at_end_of_input(pool: WorkerPool[Any]) -> None:
    while os.read(STDIN, 1):
        pass
    pool.stop()
    time.sleep(LONGEST_GOODBYE)
    os._exit(1)  # without a parent, perhaps without a server: nobody would end us
