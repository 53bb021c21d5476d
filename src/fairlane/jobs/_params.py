"""Payload models: any class that can validate a value and dump itself; pydantic's are such."""

import inspect
from typing import Any, Protocol

from fairlane.conversion import validated
from fairlane.errors import ConfigurationError, PayloadError
from fairlane.payload import as_read

__all__ = ("Model", "checked_model", "dumped")

DUMP_OPTIONS = ("by_alias", "round_trip")
"""Of pydantic's `model_dump`; other classes need not take them."""

WAY_OUT = "a serializer of the model, such as pydantic's field_serializer, can change it"


class Model(Protocol):
    """What a payload model can do. The classes of pydantic can; nothing is imported from there."""

    @classmethod
    def model_validate(cls, value: Any, /) -> Any: ...

    def model_dump(self) -> Any: ...


def checked_model(value: Any) -> type[Any] | None:
    if value is None:
        return None
    verbs = ("model_validate", "model_dump")
    if not isinstance(value, type) or not all(
        callable(getattr(value, verb, None)) for verb in verbs
    ):
        raise ConfigurationError(
            "payload must be a class with model_validate and model_dump, such as a pydantic model, "
            f"or None for plain values, not {value!r:.100}"
        )
    return value


def dumped(model: type[Any] | None, params: Any) -> Any:
    """Return the valid BSON value of what a caller gives: an instance, or what makes one.

    An instance is validated again: it may have been changed since it was made. So is what will be
    stored, as a worker will read it: it must not be refused there, where nobody can mend it.
    """
    if model is None:
        return params
    given = _dump(model, params) if isinstance(params, model) else params
    value = _dump(model, validated(model, given))
    try:
        read = as_read("payload", value)
    except PayloadError as error:
        raise PayloadError(error.path, f"{error.problem}; {WAY_OUT}") from error
    if read != given:
        _check_readable(model, read)
    return value


def _dump(model: type[Any], instance: Any) -> Any:
    """Dump what the class can validate again: its aliases, and no computed fields."""
    try:
        options = {name: True for name in DUMP_OPTIONS if _takes(instance.model_dump, name)}
        return instance.model_dump(**options)
    except Exception as error:
        raise PayloadError("payload", f"{model.__name__} cannot dump it: {error}") from error


def _takes(function: Any, name: str) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(each.name == name or each.kind is each.VAR_KEYWORD for each in parameters)


def _check_readable(model: type[Any], read: Any) -> None:
    try:
        validated(model, read)
    except PayloadError as error:
        raise PayloadError(
            "payload",
            f"a worker could not read it: {error.problem}. What {model.__name__}.model_dump "
            "returns must be what model_validate takes, after BSON (a tuple becomes a list)",
        ) from error
