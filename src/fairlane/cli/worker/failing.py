"""How a worker process ends by an error: its exit status, and what is said about it."""

import logging

from pymongo.errors import ConfigurationError as DriverConfigurationError
from pymongo.errors import OperationFailure, PyMongoError

from fairlane.cli.outcome import FAILED, USAGE, Refused, brief, complain
from fairlane.cli.worker.finding import Unimportable, needs_no_loop
from fairlane.cli.worker.plan import LogFormat, Plan
from fairlane.driver import AUTHENTICATION_FAILED, UNAUTHORIZED
from fairlane.errors import ConfigurationError, FairlaneError, describe

__all__ = ("GAVE_UP", "status_of", "tell")

GAVE_UP = 3
"""Of a supervisor whose processes ended again and again before they had worked."""

HOPELESS = (Refused, Unimportable, ConfigurationError, DriverConfigurationError)
SHOWN = 600

logger: logging.Logger = logging.getLogger(__name__)


def status_of(error: BaseException) -> int:
    """Return `USAGE` where another try must end in the same way, else `FAILED`."""
    error = _only(error)
    if isinstance(error, OperationFailure) and error.code in (UNAUTHORIZED, AUTHENTICATION_FAILED):
        return USAGE
    return USAGE if isinstance(error, HOPELESS) else FAILED


def tell(plan: Plan, error: BaseException) -> None:
    """Say in one line what was wrong; the traceback before it, if the application raised it."""
    error = _only(error)
    if isinstance(error, Unimportable):
        logger.error("the module raised while it was imported", exc_info=error.__cause__)
    elif not isinstance(error, FairlaneError | PyMongoError | Refused):
        logger.error("the worker has failed", exc_info=error)
    said = _said(error)
    if plan.log_format == LogFormat.JSON:
        logger.critical("%s", said)
    else:
        complain("worker", said)


def _said(error: BaseException) -> str:
    if isinstance(error, OperationFailure) and status_of(error) == USAGE:
        return f"the server refused the login, or what this user may do: {brief(error)}"
    if isinstance(error, PyMongoError) and not isinstance(error, DriverConfigurationError):
        return f"the server failed: {brief(error)}"
    if isinstance(error, FairlaneError | Refused | Unimportable | PyMongoError):
        return str(error)
    return describe(error, SHOWN) + needs_no_loop(error)


def _only(error: BaseException) -> BaseException:
    """Return the error without the groups that task groups of the application put it in."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
