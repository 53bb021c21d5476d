"""Random programs, one step after the other, on the real job queue and on its model.

As `test_state_machine.py` does with the transport, whose settings these are with fewer examples.
"""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from fairlane import AsyncJobQueue
from fairlane.jobs import _enqueue
from fairlane.testing import ManualClock
from property.job_machine import JobMachine
from property.job_subject import JobSubject
from property.test_state_machine import (
    CLIENTS,
    DIVIDED,
    EXPLORE,
    IS_EXPLORING,
    PARTITIONS,
    USUAL,
    dropped,
    opened,
    quiet_runner,
)
from property.world import START

RUNS = {
    "mongomock": settings(USUAL, max_examples=60, stateful_step_count=40),
    DIVIDED: settings(USUAL, max_examples=40, stateful_step_count=40),
    "motor": settings(USUAL, max_examples=8, stateful_step_count=30),
    "pymongo": settings(USUAL, max_examples=8, stateful_step_count=30),
}

pytestmark = [
    # mongomock still calls datetime.utcnow().
    pytest.mark.filterwarnings("ignore:datetime.datetime.utc:DeprecationWarning"),
    # A failure takes its time: it is played again and again until it is small.
    pytest.mark.timeout(0 if IS_EXPLORING else 600),
    pytest.mark.usefixtures("silence"),
]


@pytest.fixture(params=sorted(CLIENTS))
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def subject(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, place: str, db_name: str
) -> Iterator[JobSubject]:
    """Give a queue whose client lives in a loop of its own, as steps are no coroutines."""
    url = None if place.startswith("mongomock") else request.getfixturevalue("fairlane_url")
    clock, partitions = ManualClock(START), PARTITIONS if place == DIVIDED else 1
    with quiet_runner() as runner:
        client = runner.run(opened(place, url))
        queue = AsyncJobQueue(client, db_name, clock=clock, partitions=partitions, keep_failed=None)
        subject = JobSubject(runner, queue, clock, partitions=partitions)
        ids = SimpleNamespace(uuid4=lambda: SimpleNamespace(hex=subject.new_id()))
        monkeypatch.setattr(_enqueue, "uuid", ids)
        yield subject
        runner.run(dropped(client, db_name))


def test_queue_does_what_its_model_does(subject: JobSubject, place: str) -> None:
    class Machine(JobMachine):
        def __init__(self) -> None:
            super().__init__(subject)

    run_state_machine_as_test(Machine, settings=EXPLORE if IS_EXPLORING else RUNS[place])
