"""Payload models: any class that can validate a value and dump itself; pydantic's are such."""

from typing import Any, Protocol

from fairlane.errors import ConfigurationError, PayloadError, describe

__all__ = ("Model", "checked_model", "dumped", "validated")


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

    An instance is validated again: it may have been changed since it was made.
    """
    if model is None:
        return params
    value = params.model_dump() if isinstance(params, model) else params
    try:
        return validated(model, value).model_dump()
    except PayloadError:
        raise
    except Exception as error:
        raise PayloadError("payload", f"{model.__name__} cannot dump it: {error}") from error


def validated(model: type[Any] | None, value: Any) -> Any:
    """Return what the handler gets for a stored value. Raises `PayloadError`."""
    if model is None:
        return value
    try:
        return model.model_validate(value)
    except Exception as error:
        raise PayloadError("payload", f"{model.__name__} refused it: {describe(error)}") from error
