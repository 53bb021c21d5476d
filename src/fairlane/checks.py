"""Arguments are checked here, before anything is written.

Each error names the argument and what is allowed.
"""

import inspect
import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from fairlane.errors import ConfigurationError

__all__ = (
    "MOST_AT_ONCE",
    "PRIORITIES",
    "Seconds",
    "choice",
    "count",
    "credit",
    "flag",
    "fraction",
    "function",
    "group_id",
    "is_async",
    "moment",
    "optional_function",
    "optional_text",
    "positive_seconds",
    "priority",
    "seconds",
    "text",
)

T = TypeVar("T")

Seconds = float | timedelta
"""A duration: seconds as a number, or a `timedelta`."""

PRIORITIES = (0, 1, 2, 3, 4)
MOST_AT_ONCE = 1_000
"""So many are claimed by one call at most: what they say has to fit into single commands."""

MAX_SECONDS = 100 * 366 * 86_400.0


def seconds(name: str, value: object) -> float:
    """Return a duration in seconds, from 0 to a hundred years."""
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ConfigurationError(
            f"{name} must be seconds (int or float) or a timedelta, not {value!r}"
        )
    if not 0 <= number <= MAX_SECONDS:  # false for NaN as well
        raise ConfigurationError(
            f"{name} must be between 0 and {MAX_SECONDS:.0f} seconds, not {value!r}"
        )
    return float(number)


def positive_seconds(name: str, value: object) -> float:
    """Return a duration in seconds, above 0."""
    number = seconds(name, value)
    if number == 0:
        raise ConfigurationError(f"{name} must be longer than 0 seconds")
    return number


def credit(name: str, value: object) -> float:
    """Return a duration in seconds, from 0 to infinity."""
    if isinstance(value, float) and math.isinf(value) and value > 0:
        return value
    return seconds(name, value)


def flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(f"{name} must be True or False, not {value!r}")
    return value


def choice(name: str, value: object, allowed: Sequence[T]) -> T:
    """Return the one of these that the value is."""
    for each in allowed:
        if type(value) is type(each) and value == each:
            return each
    raise ConfigurationError(f"{name} must be one of {tuple(allowed)}, not {value!r:.100}")


def fraction(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ConfigurationError(f"{name} must be a number from 0.0 to 1.0, not {value!r}")
    return float(value)


def count(name: str, value: object, *, least: int = 1, most: int | None = None) -> int:
    highest = 2**63 - 1 if most is None else most
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= highest:
        allowed = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ConfigurationError(f"{name} must be an int {allowed}, not {value!r}")
    return value


def priority(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value not in PRIORITIES:
        raise ConfigurationError(f"{name} must be an int from 0 to 4, not {value!r}")
    return value


def moment(name: str, value: object) -> datetime:
    if not isinstance(value, datetime):
        raise ConfigurationError(f"{name} must be a datetime, not {type(value).__name__}")
    if value.utcoffset() is None:
        raise ConfigurationError(
            f"{name} must have a tzinfo: {value!r} is another moment on every machine"
        )
    return value


def text(name: str, value: object) -> str:
    """Return a `str` that UTF-8 can encode; an empty one is allowed."""
    if not isinstance(value, str):
        raise ConfigurationError(f"{name} must be a str, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ConfigurationError(f"{name} is not valid Unicode: {error.reason}") from error
    return value


def optional_text(name: str, value: object) -> str | None:
    return None if value is None else text(name, value)


def group_id(value: object) -> str:
    """Return a group id: any valid `str`. A dict would be an operator in a filter."""
    return text("group_id", value)


def function(name: str, value: Any, *arguments: str) -> Callable[..., Any]:
    """Return what can be called with so many arguments; refuse what would do nothing then."""
    if not callable(value):
        raise ConfigurationError(f"{name} must be a function, not {value!r:.100}")
    if inspect.isgeneratorfunction(value) or inspect.isasyncgenfunction(value):
        raise ConfigurationError(f"{name} must not contain `yield`: nobody would run its body")
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):  # some functions written in C do not tell
        return value  # type: ignore[no-any-return]
    try:
        signature.bind(*arguments)
    except TypeError as error:
        asked = ", ".join(arguments)
        raise ConfigurationError(f"{name} must be callable as {name}({asked}): {error}") from error
    return value  # type: ignore[no-any-return]


def is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        type(function).__call__  # an object with `async def __call__`
    )


def optional_function(name: str, value: Any, *arguments: str) -> Callable[..., Any] | None:
    return None if value is None else function(name, value, *arguments)
