"""The values that the transport hands out."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from fairlane import DeadLetter, Lease, Message, RepairReport, TransportStats
from fairlane.model import Seen

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
MESSAGE = Message(seq=7, group_id="g", event={"a": 1}, published_at=MOMENT)
VALUES: list[Any] = [
    MESSAGE,
    Lease(
        group_id="g",
        seq=7,
        event={"a": 1},
        token="w:1",
        priority=2,
        attempt=1,
        epoch=9,
        expires_at=30.5,
        messages=(MESSAGE,),
        _seen=Seen(version=3, undeleted=(1,), is_last=True),
    ),
    DeadLetter(
        seq=7,
        group_id="g",
        event=None,
        priority=0,
        reason="why",
        attempts=3,
        died_at=MOMENT,
    ),
    TransportStats(
        groups=1,
        ready=1,
        leased=0,
        parked=0,
        stopped=0,
        messages=1,
        dead=0,
        oldest_age=None,
        ready_by_priority={0: 1},
    ),
    RepairReport(examined=1, repaired=0, adopted=0, finished=0),
]


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("copied", [pickled, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_value_survives_a_round_trip(value: Any, copied: Callable[[Any], Any]) -> None:
    """A handler may run in another process; the lease it sends back must still settle."""
    assert copied(value) == value


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_value_is_immutable(value: Any) -> None:
    field = dataclasses.fields(value)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, field, None)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_value_takes_no_other_attributes(value: Any) -> None:
    assert not hasattr(value, "__dict__")


@pytest.mark.parametrize("wrong", [3, None, "event", ()])
def test_only_a_message_of_the_lease_is_done(wrong: Any) -> None:
    message = Message(seq=1, group_id="g", event="event")
    lease = Lease(
        group_id="g",
        seq=1,
        event="event",
        token="t",
        priority=0,
        attempt=1,
        epoch=1,
        expires_at=0.0,
        messages=(message,),
    )
    with pytest.raises(ValueError, match=r"must be one of lease\.messages"):
        lease.done(wrong)
