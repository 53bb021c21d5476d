"""Classes that validate by themselves: those of pydantic, of msgspec, and what behaves alike.

Nothing is imported from there: an application that has such a class has imported its library.
"""

import dataclasses
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from fairlane.errors import PayloadError, describe

__all__ = ("accepted", "undecodable", "validated", "validation_of")


def validated(model: type[Any] | None, value: Any, path: str = "payload") -> Any:
    """Return what a model makes of a stored value; the value itself without one.

    Raises:
        PayloadError: naming the place inside the value, as far as the model tells it.
    """
    if model is None:
        return value
    return accepted(model, path, lambda: model.model_validate(value))


def validation_of(kind: type[Any]) -> Callable[[Any], Any] | None:
    """Return what validates a value for a class that does so itself; None for all others."""
    if callable(getattr(kind, "model_validate", None)):
        return lambda value: kind.model_validate(value)
    validator = getattr(kind, "__pydantic_validator__", None)
    if validator is not None and dataclasses.is_dataclass(kind):
        return lambda value: validator.validate_python(value)
    msgspec = sys.modules.get("msgspec")
    if msgspec is not None and issubclass(kind, msgspec.Struct):
        return lambda value: msgspec.convert(value, kind)
    return None


def accepted(kind: type[Any], path: str, make: Callable[[], Any]) -> Any:
    """Return the instance that is made; whatever the class raises says that it refused it."""
    try:
        return make()
    except Exception as error:
        place, problem = _found(error)
        raise PayloadError(path + place, f"{kind.__name__} refused it: {problem}") from error


def undecodable(error: PayloadError) -> str:
    """Return why a stored payload never reaches a handler."""
    return f"cannot be decoded: {error.path}: {error.problem}"


def _found(error: Exception) -> tuple[str, str]:
    """Return where a library found the first problem, and which, if it tells."""
    errors = getattr(error, "errors", None)
    if callable(errors):
        with suppress(Exception):  # another library's, which only looks like pydantic's
            first, *others = errors()
            return _steps(first["loc"]), first["msg"] + (f", and {len(others)} more" * bool(others))
    problem, _, place = describe(error).partition(" - at `$")  # msgspec
    return place.removesuffix("`"), problem


def _steps(place: Iterable[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
