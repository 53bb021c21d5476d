"""Upkeep: what is done to jobs from outside, by people and by loops in the background."""

import logging
from collections.abc import Mapping

from pymongo.errors import DuplicateKeyError

from fairlane.driver import Change, Document
from fairlane.jobs import _job_commands
from fairlane.jobs._claim import EXHAUSTED
from fairlane.jobs._settle import Settler
from fairlane.jobs._store import JobStore
from fairlane.jobs.model import Reclaimed, State
from fairlane.lease import commands
from fairlane.lease.reconciler import Reconciler, Rules

__all__ = ("Upkeep",)

logger = logging.getLogger(__name__)

CHUNK = 500
SEEN: Document = {"token": 1, "attempts": 1, "max_attempts": 1, "unique_key": 1}
"""Not the payload, which need not be decodable."""
ENDED: Document = {"state": {"$in": ["done", "failed"]}}
ALIVE: Document = {"state": {"$in": list(_job_commands.LIVE)}}


class Upkeep:
    def __init__(self, store: JobStore, settler: Settler) -> None:
        self._store = store
        self._settler = settler
        # An id need not be a string where somebody else has written it.
        rules = Rules(partition_of=lambda key: store.partition_of(str(key)), adopted=lambda _: {})
        self._reconciler = Reconciler(rules)

    async def reclaim(self, older_than: float | None, type: str | None) -> Reclaimed:
        """Put jobs back whose leases are over, at once instead of at their next claim."""
        await self._store.ready()
        now = await self._store.now()
        before = None if older_than is None else now - older_than
        match = _job_commands.stale(now=now, locked_before=before, type=type)
        requeued = failed = 0
        while found := await self._store.jobs.find(
            match, sort=[("_id", 1)], limit=CHUNK, fields=SEEN
        ):
            last = [job for job in found if _is_exhausted(job)]
            more = [job for job in found if not _is_exhausted(job)]
            failed += await self._fail(last, now)
            requeued += await self._requeue(more, now)
            match = {**match, "_id": {"$gt": found[-1]["_id"]}}
        return Reclaimed(requeued=requeued, failed=failed)

    async def cancel(self, key: str) -> bool:
        now = await self._store.now()
        return await self._store.jobs.delete_one(_job_commands.cancellable(key, now=now))

    async def redrive(self, key: str | None, type: str | None) -> int:
        """Give failed jobs all their attempts again; one whose unique key is taken stays failed."""
        wanted = {"state": "failed", "_id": key, "type": type}
        match = {name: value for name, value in wanted.items() if value is not None}
        now, number = await self._store.now(), 0
        async for job in self._store.jobs.each(match, sort=[("_id", 1)], fields={"settled_key": 1}):
            number += await self._redrive(job, now)
        return number

    async def purge(self, type: str | None) -> int:
        return await self._store.jobs.delete_many(
            ENDED if type is None else {**ENDED, "type": type}
        )

    async def clear(self) -> int:
        return await self._store.jobs.delete_many({})

    async def drop(self) -> None:
        await self._store.drop()

    async def force(self, key: str, state: State) -> bool:
        """End a job whoever holds it, or put it back; its holder's lease is lost."""
        now = await self._store.now()
        found = await self._store.jobs.find_one({"_id": key}, {"unique_key": 1}) or {}
        update = (
            _job_commands.retried(at=now, error=None)
            if state == "pending"
            else self._settler.ended(state, now, found.get("unique_key"), {})
        )
        is_forced = await self._store.jobs.update_one({"_id": key, **ALIVE}, update)
        if is_forced:
            logger.warning("job %s was forced to be %s, whoever held it", key, state)
        return is_forced

    async def reconcile(self) -> int:
        """Put every job where claimers look; when all are there they need not look elsewhere.

        Learns which index suits claims, too, if that is due.
        """
        await self._store.ready()
        await self._store.measure_hints()
        await self._store.now()  # tells by which number jobs are placed
        match = {**commands.misplaced(self._store.placing()), **ALIVE}
        done = await self._reconciler.run(self._store.jobs, match, now=self._store.clock)
        if not done:
            await self._store.narrow()
        return done.adopted + done.moved

    async def _requeue(self, jobs: list[Document], now: float) -> int:
        """The token stays: a late holder may settle until somebody else has claimed."""
        update: Document = {"$set": {"state": "pending"}}
        return await self._apply([(_job_commands.reclaimed(job, now=now), update) for job in jobs])

    async def _fail(self, jobs: list[Document], now: float) -> int:
        return await self._apply(
            [
                (
                    _job_commands.reclaimed(job, now=now),
                    self._settler.ended(
                        "failed", now, job.get("unique_key"), {"last_error": EXHAUSTED}
                    ),
                )
                for job in jobs
            ]
        )

    async def _apply(self, changes: list[Change]) -> int:
        if not changes:
            return 0
        return await self._store.jobs.update_each(changes)

    async def _redrive(self, job: Mapping[str, object], now: float) -> bool:
        match = {"_id": job["_id"], "state": "failed"}
        update = _job_commands.redriven(
            dict(job), now=now, partition=self._store.partition_of(str(job["_id"]))
        )
        try:
            return await self._store.jobs.update_one(match, update)
        except DuplicateKeyError:
            logger.warning(
                "job %s stays failed: another one has its unique key %r",
                job["_id"],
                job.get("settled_key"),
            )
            return False


def _is_exhausted(job: Document) -> bool:
    """What was not written by a queue is for the next claim, which reads all of it."""
    attempts, most = job.get("attempts"), job.get("max_attempts")
    return isinstance(attempts, int) and isinstance(most, int) and attempts >= most
