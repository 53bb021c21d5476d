"""One run against a server: publish, let the processes claim, look at what is left behind."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import uuid4

from pymongo.errors import OperationFailure

from benchmarks._claims_case import Case, shared_out
from benchmarks._claims_fleet import fleet
from benchmarks._claims_invariants import violations
from benchmarks._claims_products import PRODUCTS, Groups, Jobs
from benchmarks._claims_records import Orders, ProductName, Share
from benchmarks._claims_report import Figures, figures, returned
from benchmarks._measuring import CLIENTS, Server
from fairlane.driver import close

__all__ = ("Ground", "run")

N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What all runs have in common."""

    server: Server
    product: ProductName
    driver: str
    processes: int
    batch: int

    def orders(self, case: Case, database: str) -> list[Orders]:
        return [
            Orders(
                url=self.server.url,
                database=database,
                driver=self.driver,
                product=self.product,
                strategy=case.scenario.strategy_on(is_repaired=self.server.is_repaired),
                batch=self.batch,
                first=claimers.start,
                claimers=len(claimers),
            )
            for claimers in shared_out(case.claimers, self.processes)
        ]


async def run(case: Case, ground: Ground) -> tuple[Figures, list[str]]:
    """Measure one case; return its figures, and the invariants that do not hold after it.

    Only the claims are timed. Raises `ClaimerDied`.
    """
    async with _database(ground) as (client, name):
        claimable = PRODUCTS[ground.product](
            client,
            name,
            partitions=case.scenario.partitions,
            strategy=case.scenario.strategy_on(is_repaired=ground.server.is_repaired),
        )
        async with claimable:
            await claimable.fill(case.groups)
            async with fleet(ground.orders(case, name)) as claimers:
                used = ground.server.cpu_seconds()
                conflicts = await _write_conflicts(client)
                shares = await claimers.claim()
                used = _growth(used, ground.server.cpu_seconds())
                conflicts = _growth(conflicts, await _write_conflicts(client))
            wrong = await _check(case, shares, claimable, client[name])
    return figures(shares, server_cpu=used, write_conflicts=conflicts), wrong


@asynccontextmanager
async def _database(ground: Ground) -> AsyncIterator[tuple[Any, str]]:
    """Yield a client and the name of a fresh database, which is dropped afterwards."""
    client = CLIENTS[ground.driver](ground.server.url)
    name = f"fairlane_bench_{uuid4().hex[:12]}"
    try:
        yield client, name
    finally:
        try:
            await client.drop_database(name)
        finally:
            await close(client)


async def _write_conflicts(client: Any) -> int | None:
    """Return what the server has counted, or None if it does not count, or not for us."""
    try:
        status = await client.admin.command("serverStatus")
    except OperationFailure:
        return None
    number = status.get("metrics", {}).get("operation", {}).get("writeConflicts")
    return None if number is None else int(number)


def _growth(before: N | None, after: N | None) -> N | None:
    return None if before is None or after is None else after - before


async def _check(
    case: Case, shares: list[Share], claimable: Groups | Jobs, database: Any
) -> list[str]:
    stored = await claimable.stored(database)
    left = await claimable.claim("second-sweep", 1)
    return violations(
        case.groups,
        returned=returned(shares),
        stored=stored,
        second_sweep=[each.group for each in left],
    )
