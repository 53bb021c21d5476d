"""One library at one depth: its processes run on a server, and what they did is summed up."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pymongo

from benchmarks._measuring import Server
from benchmarks.peers._catalog import Subject
from benchmarks.peers._figures import Figures, figures
from benchmarks.peers._processes import Ran, ran
from benchmarks.peers._records import Orders, Role, Sizes

__all__ = ("Limits", "measured")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a part ends though not all is done.

    Attributes:
        seconds: after the sign to begin.
        patience: seconds after the last settlement.
    """

    seconds: float
    patience: float


async def measured(
    subject: Subject, python: str, server: Server, sizes: Sizes, limits: Limits
) -> Figures:
    """Publish, then work off; then, in another database, both at once.

    Raises `SubjectFailed`.
    """

    def orders(role: Role, database: str, expected: int) -> Orders:
        return Orders(
            role=role,
            url=server.url,
            database=database,
            sizes=sizes,
            batch=subject.batch or sizes.workers,
            expected=expected,
            seconds=limits.seconds,
            patience=limits.patience,
        )

    async def run(*all_orders: Orders) -> Ran:
        return await ran(python, subject.program, all_orders, server.cpu_seconds)

    with _database(server) as name:
        published = await run(orders("publish", name, 0))
        there = len(published.shares[0].published)
        worked = await run(orders("work", name, there))
    with _database(server) as name:
        together = await run(orders("publish", name, 0), orders("work", name, sizes.messages))
    return figures(published, worked, together, sizes, seconds=limits.seconds)


@contextmanager
def _database(server: Server) -> Iterator[str]:
    name = f"fairlane_peers_{uuid4().hex[:12]}"
    try:
        yield name
    finally:
        with pymongo.MongoClient[dict[str, Any]](server.url) as client:
            client.drop_database(name)
