"""Publishing while transactions of the application are open (fault 16).

A publish takes no session: it is never part of a transaction, and a transaction writes nothing that
publishers write. It stands whatever becomes of the transaction; with a `message_id` it may be
repeated with it.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from fairlane import AsyncMongoTransport

Transport = AsyncMongoTransport[Any]

TRANSACTIONS = 50
PARTS = 3
TOTALS = 10
"""Documents over which the transactions conflict with each other."""


class Aborted(Exception):
    """The application gives up."""


Work = Callable[[int, Any], Awaitable[None]]


@pytest.fixture
def transport(make_transport: Callable[..., Transport]) -> Transport:
    return make_transport(clock=None)


@pytest.fixture
def work(transport: Transport, database: Any) -> Work:
    """What one transaction does: two documents of the application's, and three messages."""

    async def insert_and_publish(number: int, session: Any) -> None:
        await database.orders.insert_one({"_id": number}, session=session)
        match, one_more = {"_id": number % TOTALS}, {"$inc": {"n": 1}}
        await database.totals.update_one(match, one_more, session=session)
        for part in range(PARTS):
            name = f"{number}-{part}"
            await transport.publish(f"group-{part}", name, message_id=name)

    return insert_and_publish


async def in_transaction(client: Any, work: Callable[[Any], Awaitable[None]]) -> None:
    """Run a transaction as the driver means it to be run: it repeats what conflicts."""
    starting = client.start_session()
    async with await starting if inspect.isawaitable(starting) else starting as session:
        await session.with_transaction(work)


async def drained(transport: Transport) -> list[str]:
    events = []
    while lease := await transport.claim("w"):
        events.append(lease.event)
        assert await transport.ack(lease)
    return events


async def test_fifty_transactions_that_publish_all_commit(
    client: Any, transport: Transport, work: Work, database: Any
) -> None:
    await database.totals.insert_many([{"_id": number, "n": 0} for number in range(TOTALS)])
    await asyncio.gather(
        *(in_transaction(client, partial(work, number)) for number in range(TRANSACTIONS))
    )
    totals = await database.totals.find().to_list(None)
    assert [total["n"] for total in totals] == [TRANSACTIONS / TOTALS] * TOTALS
    names = [f"{number}-{part}" for number in range(TRANSACTIONS) for part in range(PARTS)]
    assert sorted(await drained(transport)) == sorted(names)


async def test_aborted_transactions_that_published_block_no_group(
    client: Any, transport: Transport, work: Work, database: Any
) -> None:
    async def give_up(number: int, session: Any) -> None:
        await work(number, session)
        raise Aborted

    for number in range(3):
        with pytest.raises(Aborted):
            await in_transaction(client, partial(give_up, number))
    assert await database.orders.find_one() is None
    assert len(await drained(transport)) == 3 * PARTS
    assert (await transport.stats()).groups == 0
