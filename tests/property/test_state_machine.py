"""Random programs, one step after the other, on the real transport and on its model.

What can only go wrong between two steps is the interleavings' matter. Here runs are long and
everything is mixed with everything, on mongomock and on the local server. The usual runs are always
the same; `HYPOTHESIS_PROFILE=explore nox -s tests -- tests/property/test_state_machine.py` looks
for new ones, as many as `EXPLORE_EXAMPLES` says.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from mongomock_motor import AsyncMongoMockClient
from motor.motor_asyncio import AsyncIOMotorClient
from pymongo import AsyncMongoClient

from fairlane import AsyncMongoTransport
from fairlane.testing import ManualClock
from property.comparison import Comparison, Subject
from property.machine import TransportMachine
from property.model_transport import NEW_GROUP_CREDIT
from property.world import START

IS_EXPLORING = os.environ.get("HYPOTHESIS_PROFILE") == "explore"
EXAMPLES = int(os.environ.get("EXPLORE_EXAMPLES", "1000"))

DIVIDED = "mongomock-divided"
PARTITIONS = 3

CLIENTS: dict[str, Callable[..., Any]] = {
    "mongomock": lambda _: AsyncMongoMockClient(),
    DIVIDED: lambda _: AsyncMongoMockClient(),
    "motor": AsyncIOMotorClient,
    "pymongo": AsyncMongoClient,
}

USUAL = settings(
    database=None,
    deadline=None,
    derandomize=True,
    phases=(Phase.generate, Phase.shrink),
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
RUNS = {
    "mongomock": settings(USUAL, max_examples=200, stateful_step_count=40),
    DIVIDED: settings(USUAL, max_examples=100, stateful_step_count=40),
    "motor": settings(USUAL, max_examples=20, stateful_step_count=30),
    "pymongo": settings(USUAL, max_examples=20, stateful_step_count=30),
}
EXPLORE = settings(USUAL, derandomize=False, max_examples=EXAMPLES, stateful_step_count=80)

pytestmark = [
    # mongomock still calls datetime.utcnow().
    pytest.mark.filterwarnings("ignore:datetime.datetime.utc:DeprecationWarning"),
    # A failure takes its time: it is played again and again until it is small.
    pytest.mark.timeout(0 if IS_EXPLORING else 600),
]


@pytest.fixture(params=sorted(CLIENTS))
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def subject(request: pytest.FixtureRequest, place: str, db_name: str) -> Iterator[Subject]:
    """Give a transport whose client lives in a loop of its own, as steps are no coroutines."""
    url = None if place.startswith("mongomock") else request.getfixturevalue("fairlane_url")
    clock, partitions = ManualClock(START), PARTITIONS if place == DIVIDED else 1
    with quiet_runner() as runner:
        client = runner.run(opened(place, url))
        transport: AsyncMongoTransport[int] = AsyncMongoTransport(
            client,
            db_name,
            clock=clock,
            partitions=partitions,
            new_group_credit=NEW_GROUP_CREDIT,
        )
        yield Subject(runner, transport, clock, partitions=partitions)
        runner.run(dropped(client, db_name))


def test_transport_does_what_its_model_does(subject: Subject, place: str) -> None:
    class Machine(TransportMachine):
        def __init__(self) -> None:
            super().__init__(subject)

    run_state_machine_as_test(Machine, settings=EXPLORE if IS_EXPLORING else RUNS[place])


def test_group_left_empty_by_a_repeated_publish_stands_until_a_claim_comes_by(
    subject: Subject,
) -> None:
    """Random programs seldom get here, and never in the usual runs."""
    both = Comparison(subject)
    both.publish("a", 0, "m")
    lease = both.claim()
    both.publish("a", 4, "m")
    assert lease is not None
    both.settle(lease, ("ack",))
    both.stored()
    assert both.model.groups.keys() == {"a"}
    both.drain()


def test_claim_of_many_returns_fewer_where_it_meets_a_group_left_empty(subject: Subject) -> None:
    """Random programs do not get here either."""
    both = Comparison(subject)
    both.publish("g", 0, "m")
    lease = both.claim()
    both.publish("g", 0, "m")
    assert lease is not None
    both.settle(lease, ("ack",))
    both.clock.advance(NEW_GROUP_CREDIT + 1.0)  # else new groups would come before it
    both.publish_many([("h", 0), ("i", 0)])
    assert len(both.claim_many(2, 30.0, 0, "fair")) == 1
    both.stored()
    both.drain()


@contextmanager
def quiet_runner() -> Iterator[asyncio.Runner]:
    """Give a loop in which no task may die unheard (I6)."""
    stray: list[dict[str, Any]] = []
    with asyncio.Runner() as runner:
        runner.get_loop().set_exception_handler(lambda _, context: stray.append(context))
        yield runner
    assert stray == []


async def opened(place: str, url: str | None) -> Any:
    return CLIENTS[place](url)


async def dropped(client: Any, db_name: str) -> None:
    await client.drop_database(db_name)
    closing = client.close()
    if closing is not None:
        await closing
