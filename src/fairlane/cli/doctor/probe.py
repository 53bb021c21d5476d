"""The probe: concurrent claims on a collection of its own, and what becomes of a majority write."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pymongo
from bson.int64 import Int64
from pymongo.errors import PyMongoError

from fairlane import schema
from fairlane.checks import PRIORITIES
from fairlane.cli.doctor.finding import Finding
from fairlane.cli.outcome import brief
from fairlane.cli.target import Deployment
from fairlane.driver import Collection, Document, Driver
from fairlane.lease import commands
from fairlane.lease.strategy import Leaser, Strategy

__all__ = ("Claims", "atomicity", "judge_claims", "probing", "write_concern")

DOCUMENTS = 48
CLAIMERS = 8
LEASE = 3_600.0
LOST_CLAIMS = 10 * DOCUMENTS
"""So many claims may be lost at once before a claimer gives up."""
PATIENCE = 10.0


@asynccontextmanager
async def probing(deployment: Deployment) -> AsyncIterator[Collection]:
    """Make a collection that nobody else knows, and drop it in the end."""
    target = deployment.target
    name = f"{target.prefix}_doctor_{uuid4().hex}"
    collection = deployment.driver.collection(target.db_name, name)
    try:
        yield collection
    finally:
        with pymongo.timeout(PATIENCE):
            await collection.drop()


async def write_concern(deployment: Deployment, collection: Collection) -> Finding:
    """Write once, as all of Fairlane's writes are."""
    asked = dict(deployment.driver.client.write_concern.document)
    named = asked["w"] if isinstance(asked.get("w"), str) else "majority"
    concern = {**asked, "w": named}
    said = ", ".join(f"{key}={value}" for key, value in concern.items())
    began = time.perf_counter()
    try:
        with pymongo.timeout(PATIENCE):
            await collection.insert([{"_id": "written"}])
    except PyMongoError as error:
        if not error.timeout:
            raise
        return Finding(
            check="write concern",
            status="error",
            detail=f"{said}: no acknowledgement within {PATIENCE:g} s: {brief(error)}",
            advice="too few members that hold data are up, or they lag: see rs.status()",
            data={"write_concern": concern},
        )
    milliseconds = round((time.perf_counter() - began) * 1_000, 1)
    return Finding(
        check="write concern",
        status="ok",
        detail=f"{said}, acknowledged in {milliseconds:g} ms",
        data={"write_concern": concern, "milliseconds": milliseconds},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What concurrent claimers have done.

    Attributes:
        leased: the `_id` of the document of each lease that a claim returned.
        documents: what the collection holds afterwards.
        seconds: from the first claim to the last.
    """

    leased: Sequence[Any]
    documents: Sequence[Mapping[str, Any]]
    seconds: float


async def atomicity(driver: Driver, collection: Collection, wanted: Strategy) -> Finding:
    """Let claimers race for the same documents, as workers do, and look whether two got one."""
    for model in (schema.LOCK_INDEXES[0], schema.TOKEN_INDEX):
        await collection.create_index(model)
    await collection.insert([_document(number) for number in range(DOCUMENTS)])
    leaser = Leaser(driver, wanted)
    await leaser.detect(collection)
    began = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        claimers = [tasks.create_task(_claim_all(leaser, collection)) for _ in range(CLAIMERS)]
    seconds = time.perf_counter() - began
    documents = await collection.find({"token": schema.STRINGS}, sort=[("_id", 1)], limit=0)
    leased = [key for claimer in claimers for key in claimer.result()]
    claims = Claims(leased=leased, documents=documents, seconds=seconds)
    return judge_claims(claims, leaser.strategy)


def judge_claims(claims: Claims, strategy: str) -> Finding:
    """Judge by the attempts, which each claim counts: a document that two got has two."""
    number = len(claims.leased)
    again = number - len(set(claims.leased))
    shared = max(again, sum(each["attempts"] != 1 for each in claims.documents))
    rate = round(number / claims.seconds) if claims.seconds else 0
    advice = None
    said = f"each was leased once ({rate:,} claims/s)"
    if shared:
        said, advice = f"{shared} were leased more than once", _without_atomicity(strategy)
    elif number != DOCUMENTS:
        said = f"{number} leases were returned"
        advice = "claims pass over what is due, or write what cannot be read back: report this"
    return Finding(
        check="atomicity",
        status="ok" if advice is None else "error",
        detail=f"{CLAIMERS} claimers at once, {DOCUMENTS} documents, by {strategy}: {said}",
        advice=advice,
        data={"claims": number, "shared": shared, "per_s": rate},
    )


def _without_atomicity(strategy: str) -> str:
    instead = 'pass strategy="find_one_and_update" in every program'
    what_to_do = instead if strategy == "update_one" else "no lease is safe on it"
    return f"this server does not apply {strategy} atomically: {what_to_do}"


async def _claim_all(leaser: Leaser, collection: Collection) -> list[Any]:
    """Claim until nothing is left, and return what was got."""
    leased: list[Any] = []
    lost = 0
    while lost < LOST_CLAIMS:
        document = await _claim(leaser, collection)
        if document is None:
            break
        if document:
            leased.append(document["_id"])
        else:
            lost += 1
    return leased


async def _claim(leaser: Leaser, collection: Collection) -> Document | None:
    now = float(DOCUMENTS)
    return await leaser.lease(
        collection,
        commands.due(partitions=[0], now=now, among={"priority": PRIORITIES}),
        token=uuid4().hex,
        now=now,
        until=now + LEASE,
        sort=commands.order_by("fair"),
    )


def _document(number: int) -> Document:
    return {
        "_id": number,
        "partition": 0,
        "priority": 0,
        "available_at": float(number),
        "token": None,
        "attempts": 0,
        "epoch": Int64(0),
    }
