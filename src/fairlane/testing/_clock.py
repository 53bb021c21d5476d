"""A clock that only tests move."""

from fairlane.checks import Seconds, seconds

__all__ = ("ManualClock",)


class ManualClock:
    """Tell the time a test has set; pass it as `clock=` to a transport.

    ```python
    clock = ManualClock(start=1_000.0)
    clock.advance(30)
    assert clock() == 1_030.0
    ```
    """

    def __init__(self, start: float = 0.0) -> None:
        self._now = float(start)

    def __call__(self) -> float:
        """Return the time, in epoch seconds."""
        return self._now

    def advance(self, by: Seconds) -> None:
        """Move forward by seconds or a `timedelta`, 0 or more."""
        self._now += seconds("by", by)

    def jump(self, to: float) -> None:
        """Set the time to `to` epoch seconds, forward or back, as a corrected clock would."""
        self._now = float(to)

    def __repr__(self) -> str:
        return f"ManualClock({self._now!r})"
