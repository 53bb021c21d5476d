"""What the database says of the jobs: the documents themselves, whatever the library says."""

from dataclasses import dataclass

from fairlane.cli.demo.database import PREFIX, Database
from fairlane.driver import Document

__all__ = ("Held", "Ledger", "Stored")

FIELDS: Document = {"state": 1, "attempts": 1, "epoch": 1, "token": 1}
BY_ID = [("_id", 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A job as it is stored."""

    id: str
    state: str
    attempts: int
    epoch: int
    is_leased: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A lease that a worker had when it was killed."""

    job_id: str
    epoch: int


class Ledger:
    def __init__(self, database: Database) -> None:
        self._jobs = database.driver.collection(database.name, f"{PREFIX}_jobs")

    async def ended(self) -> int:
        """Count the jobs that have ended."""
        return await self._jobs.count({"state": {"$in": ["done", "failed"]}})

    async def all(self) -> list[Stored]:
        return await self._find({})

    async def held_by(self, worker: str) -> set[Held]:
        """Return the leases that were this worker's last, and that nobody has ended or taken."""
        held = await self._find({"state": "processing", "locked_by": worker})
        return {Held(job_id=job.id, epoch=job.epoch) for job in held if job.is_leased}

    async def _find(self, match: Document) -> list[Stored]:
        found = await self._jobs.find(match, sort=BY_ID, limit=0, fields=FIELDS)
        return [
            Stored(
                id=document["_id"],
                state=document["state"],
                attempts=document["attempts"],
                epoch=document["epoch"],
                is_leased=document.get("token") is not None,
            )
            for document in found
        ]
