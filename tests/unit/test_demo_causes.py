"""Why `fairlane demo` delivered an event again."""

import pytest

from fairlane.cli.demo.causes import causes
from fairlane.cli.demo.records import Delivery, Execution, Outcome


def handle(start: int, outcome: Outcome = "handled", worker: str = "living") -> Execution:
    delivery = Delivery(group="g", index=0, seq=0, attempt=1, digest="")
    return Execution(
        worker=worker, delivery=delivery, started_at=start, ended_at=start + 1, outcome=outcome
    )


def test_one_delivery_has_no_cause() -> None:
    assert causes([handle(0)]) == {}


@pytest.mark.parametrize("worker", ["living", "killed"])
def test_a_delivery_after_a_failure_is_the_failure_s(worker: str) -> None:
    assert causes([handle(0, "failed", worker), handle(9)], ["killed"]) == {"failure": 1}


@pytest.mark.parametrize("outcome", ["cut", "handled", "cancelled"])
def test_a_delivery_after_one_to_a_killed_worker_is_the_kill_s(outcome: Outcome) -> None:
    assert causes([handle(0, outcome, "killed"), handle(9)], ["killed"]) == {"kill": 1}


@pytest.mark.parametrize("outcome", ["cut", "handled", "cancelled"])
def test_a_delivery_after_a_lost_lease_is_something_else(outcome: Outcome) -> None:
    assert causes([handle(0, outcome), handle(9)], ["killed"]) == {"other": 1}


def test_every_further_delivery_has_its_own_cause() -> None:
    run = [handle(20), handle(10, "cut", "killed"), handle(0, "failed")]
    assert causes(run, ["killed"]) == {"failure": 1, "kill": 1}
