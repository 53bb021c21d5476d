from datetime import timedelta

import pytest

from fairlane import ConfigurationError
from fairlane.testing import ManualClock


def test_stands_still() -> None:
    clock = ManualClock(start=5.0)

    assert clock() == clock() == 5.0


def test_starts_at_zero() -> None:
    assert ManualClock()() == 0.0


@pytest.mark.parametrize("step", [1.5, timedelta(seconds=1.5)])
def test_advances_by_seconds_or_timedelta(step: float | timedelta) -> None:
    clock = ManualClock()

    clock.advance(step)

    assert clock() == 1.5


def test_advance_refuses_to_go_back() -> None:
    with pytest.raises(ConfigurationError, match="between 0 and"):
        ManualClock().advance(-1)


def test_jumps_back() -> None:
    clock = ManualClock(start=100.0)

    clock.jump(40.0)

    assert clock() == 40.0
