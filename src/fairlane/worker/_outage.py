"""What a background loop does about errors: log each outage once, wait longer and longer, go on."""

import logging

import anyio
from pymongo import errors as driver_errors

from fairlane.driver import AUTHENTICATION_FAILED, UNAUTHORIZED
from fairlane.errors import ConfigurationError, describe
from fairlane.retry import Backoff
from fairlane.worker._health import Vitals

__all__ = ("Outage", "is_hopeless", "telling")

logger = logging.getLogger(__name__)

PAUSE = Backoff(base=0.1, cap=3.0)

UNREACHABLE = (driver_errors.ConnectionFailure, ConnectionError, TimeoutError)

MAX_LINE = 300
"""Characters of an error in the log: those of the driver tell about each server at length."""


def is_hopeless(error: Exception, *, has_worked: bool) -> bool:
    """Say whether no waiting can help.

    Once a source has worked its settings are right, and a refused login is more likely a server
    that is being reconfigured.
    """
    if isinstance(error, ConfigurationError):
        return True
    if has_worked:
        return False
    if isinstance(error, driver_errors.OperationFailure):
        return error.code in (UNAUTHORIZED, AUTHENTICATION_FAILED)
    return isinstance(error, driver_errors.ConfigurationError) or _is_of_another_loop(error)


def _is_of_another_loop(error: Exception) -> bool:
    """Tell whether the client was used in an event loop before that is not this one."""
    return isinstance(error, RuntimeError) and "event loop" in str(error).lower()


def telling(error: Exception) -> Exception | None:
    """Return an error whose traceback is worth a look.

    That of an unreachable server leads through the driver, and tells nothing.
    """
    return None if isinstance(error, UNREACHABLE) else error


class Outage:
    """The errors of one kind of call since it last worked."""

    def __init__(self, what: str, vitals: Vitals) -> None:
        self._what = what
        self._vitals = vitals
        self._failures = 0
        self._is_late = False
        self._since = 0.0

    def note_delay(self, seconds: float) -> None:
        """A call has had no answer for so long: a driver may look for its server even longer."""
        if self._failures or self._is_late:
            return
        self._is_late = True
        self._since = anyio.current_time() - seconds
        logger.warning("%s has had no answer for %g s, still waiting", self._what, seconds)

    def note(self, error: Exception) -> float:
        """Count an error; return the seconds to wait before the next try."""
        self._failures += 1
        if self._failures == 1:
            if not self._is_late:
                self._since = anyio.current_time()
            self._vitals.fail(self._what)
            logger.warning(
                "%s failed, trying on with back-off: %s",
                self._what,
                describe(error, MAX_LINE),
                exc_info=telling(error),
            )
        return PAUSE.delay(self._failures)

    def end(self) -> None:
        """The call has worked."""
        if self._failures or self._is_late:
            lasted = anyio.current_time() - self._since
            logger.info(
                "%s works again after %.1f s, %d failures", self._what, lasted, self._failures
            )
            self._vitals.recover(self._what)
        self._failures, self._is_late = 0, False
