"""For tests of programs built on Fairlane: a real server in a second, a clock that stands still."""

from fairlane.testing._clock import ManualClock
from fairlane.testing._server import LocalServer, local_server

__all__ = ("LocalServer", "ManualClock", "local_server")
