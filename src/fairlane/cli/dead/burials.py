"""Dead letters and failed jobs, looked at in one way."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import asdict
from typing import Any, ClassVar, Protocol, cast

from fairlane import DeadLetter, Job
from fairlane.cli.outcome import Refused
from fairlane.cli.target import Deployment
from fairlane.cli.text import json_value, preview
from fairlane.clock import instant
from fairlane.errors import NotFound

__all__ = ("Burials", "FailedJobs", "Flat", "Letters")

NARROW = 40
WIDE = 80
LISTED = ("type", "attempts", "max_attempts", "done_at", "last_error")

Flat = dict[str, Any]
"""A letter or a job, its attributes as `--json` prints them."""


class Burials(Protocol):
    """What is dead of one product.

    Attributes:
        noun: one of it.
        columns: of the table that `row` fills.
    """

    noun: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]

    def each(self, limit: int) -> AsyncGenerator[Flat, None]:
        """Iterate, oldest first; what is behind the limit may be left out."""

    def row(self, flat: Flat) -> tuple[str, ...]: ...

    async def find(self, key: str) -> Flat:
        """Return one, with its payload. Raises `NotFound`."""

    async def redrive(self, key: str | None) -> int:
        """Let one be tried again, or all that were chosen; return how many."""


class Letters:
    """The dead letters of one group, or of all."""

    noun: ClassVar[str] = "dead letter"
    columns: ClassVar[tuple[str, ...]] = (
        *("seq", "group", "attempts", "died (UTC)", "stops", "reason"),
    )

    def __init__(self, deployment: Deployment, group: str | None) -> None:
        self._transport = deployment.transport()
        self._group = group

    async def each(self, limit: int) -> AsyncGenerator[Flat, None]:
        async for letter in self._letters():
            yield _of_letter(letter)

    def row(self, flat: Flat) -> tuple[str, ...]:
        return (
            str(flat["seq"]),
            preview(flat["group_id"], NARROW),
            str(flat["attempts"]),
            f"{flat['died_at']:%Y-%m-%d %H:%M:%S}",
            "yes" if flat["is_stopping"] else "",
            preview(flat["reason"], WIDE),
        )

    async def find(self, key: str) -> Flat:
        seq = _seq(key)
        letters = self._letters()
        try:
            async for letter in letters:
                if letter.seq >= seq:
                    break
            else:
                letter = None
        finally:
            await letters.aclose()
        if letter is None or letter.seq != seq:
            where = "" if self._group is None else f" of group {self._group!r}"
            raise NotFound(f"there is no dead letter {seq}{where}")
        return _of_letter(letter)

    async def redrive(self, key: str | None) -> int:
        seq = None if key is None else _seq(key)
        return await self._transport.redrive(group_id=self._group, seq=seq)

    def _letters(self) -> "AsyncGenerator[DeadLetter[Any], None]":
        letters = self._transport.dead_letters(self._group)
        return cast("AsyncGenerator[DeadLetter[Any], None]", letters)


class FailedJobs:
    """The failed jobs of one type, or of all, as long as they are kept."""

    noun: ClassVar[str] = "failed job"
    columns: ClassVar[tuple[str, ...]] = ("id", "type", "attempts", "failed (UTC)", "last error")

    def __init__(self, deployment: Deployment, type: str | None) -> None:
        target = deployment.target
        self._queue = deployment.queue()
        self._jobs = deployment.driver.collection(target.db_name, f"{target.prefix}_jobs")
        self._type = type

    async def each(self, limit: int) -> AsyncGenerator[Flat, None]:
        match = {"state": "failed"} | ({} if self._type is None else {"type": self._type})
        found = await self._jobs.find(
            match, sort=[("done_at", 1)], limit=limit, fields=dict.fromkeys(LISTED, 1)
        )
        for document in found:
            yield _listed(document)

    def row(self, flat: Flat) -> tuple[str, ...]:
        done_at = flat["done_at"]
        return (
            flat["id"],
            preview(str(flat["type"]), NARROW),
            f"{flat['attempts']} of {flat['max_attempts']}",
            "-" if done_at is None else f"{done_at:%Y-%m-%d %H:%M:%S}",
            preview(flat["last_error"] or "", WIDE),
        )

    async def find(self, key: str) -> Flat:
        job = await self._queue.get(key)
        if job is None or job.state != "failed" or self._type not in (None, job.type):
            raise NotFound(f"there is no failed job {key!r}")
        return _of_job(job)

    async def redrive(self, key: str | None) -> int:
        return await self._queue.redrive(key, type=self._type)


def _seq(key: str) -> int:
    digits = key.removeprefix("-")
    if not digits.isdecimal() or not 0 < int(digits) < 2**63:
        raise Refused(f"a dead letter has a number, not {key!r} (--jobs for a job)")
    return int(key)


def _of_letter(letter: DeadLetter[Any]) -> Flat:
    return {**asdict(letter), "event": json_value(letter.event)}


def _of_job(job: Job) -> Flat:
    flat = {**asdict(job), "payload": json_value(job.payload), "result": json_value(job.result)}
    for internal in ("available_at", "token", "recurrence"):
        del flat[internal]
    return flat


def _listed(document: Mapping[str, Any]) -> Flat:
    flat = {"id": document["_id"], **{name: document.get(name) for name in LISTED}}
    return flat if flat["done_at"] is None else {**flat, "done_at": instant(flat["done_at"])}
