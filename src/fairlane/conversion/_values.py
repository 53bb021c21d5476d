"""Convert single values. Each function is told the path of the value, for its error."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fairlane.conversion._models import accepted
from fairlane.errors import PayloadError

__all__ = (
    "Convert",
    "first_that_fits",
    "items",
    "number",
    "one_of",
    "places",
    "scalar",
    "step_to",
    "unchanged",
    "valid",
    "values",
)

Convert = Callable[[str, Any], Any]
"""Converts the value at a path; raises `PayloadError` naming the path inside it."""


def unchanged(_: str, value: Any) -> Any:
    return value


def scalar(kind: type[Any], path: str, value: Any) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise _unfit(path, kind.__name__, value)
    return value


def number(path: str, value: Any) -> float:
    """Return a float; an int is one for type checkers, too."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _unfit(path, "float", value)
    return float(value)


def one_of(allowed: Sequence[Any], path: str, value: Any) -> Any:
    for each in allowed:
        if type(each) is type(value) and each == value:
            return each
    raise PayloadError(path, f"must be one of {', '.join(map(repr, allowed))}, not {value!r:.100}")


def first_that_fits(ways: Sequence[Convert], path: str, value: Any) -> Any:
    """Return what the first way makes of it that fits. Else the one that came farthest tells."""
    failures: list[PayloadError] = []
    for way in ways:
        try:
            return way(path, value)
        except PayloadError as error:
            failures.append(error)
    farthest = max(failures, key=lambda each: len(each.path))
    if farthest.path != path:
        raise farthest
    raise PayloadError(path, "; or ".join(each.problem for each in failures))


def valid(kind: type[Any], validate: Callable[[Any], Any], path: str, value: Any) -> Any:
    """Return what the class makes of it; an instance is left as it is."""
    if isinstance(value, kind):
        return value
    return accepted(kind, path, lambda: validate(value))


def items(of: Callable[[Iterator[Any]], Any], convert: Convert, path: str, value: Any) -> Any:
    """Return a list or a tuple of the items; BSON has lists for both."""
    sequence = _sequence(path, value)
    return of(convert(f"{path}[{index}]", each) for index, each in enumerate(sequence))


def places(converts: Sequence[Convert], path: str, value: Any) -> tuple[Any, ...]:
    """Return a tuple that has a type for each of its items."""
    sequence = _sequence(path, value)
    if len(sequence) != len(converts):
        raise PayloadError(path, f"must have {len(converts)} items, not {len(sequence)}")
    pairs = zip(converts, sequence, strict=True)
    return tuple(convert(f"{path}[{index}]", each) for index, (convert, each) in enumerate(pairs))


def values(of_keys: Convert, of_values: Convert, path: str, value: Any) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise _unfit(path, "dict", value)
    return {
        of_keys(f"{path}, the key {key!r}", key): of_values(path + step_to(key), each)
        for key, each in value.items()
    }


def step_to(key: str) -> str:
    return f".{key}" if key.isidentifier() else f"[{key!r}]"


def _sequence(path: str, value: Any) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise _unfit(path, "list", value)
    return value


def _unfit(path: str, name: str, value: Any) -> PayloadError:
    return PayloadError(path, f"must be {name}, not {type(value).__name__}")
