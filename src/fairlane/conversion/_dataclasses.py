"""Dataclasses of the standard library, which validate nothing by themselves."""

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, get_type_hints

from fairlane.conversion._models import accepted
from fairlane.conversion._values import Convert, step_to
from fairlane.errors import ConfigurationError, PayloadError

__all__ = ("Field", "fields_of", "instance_of")


class Field(NamedTuple):
    convert: Convert
    is_required: bool


def fields_of(kind: type[Any]) -> Iterator[tuple[str, Any, bool]]:
    """Yield name and annotation of each field that is given, and whether it must be.

    Raises:
        ConfigurationError: an annotation cannot be resolved, or the fields are not all it takes.
    """
    hints = _hints(kind)
    given = [each for each in dataclasses.fields(kind) if each.init]
    try:
        inspect.signature(kind).bind(**{each.name: None for each in given})
    except TypeError as error:
        raise ConfigurationError(
            f"{kind.__qualname__} cannot be made of its fields alone: {error}"
        ) from error
    for each in given:
        is_required = each.default is each.default_factory is dataclasses.MISSING
        yield each.name, hints[each.name], is_required


def instance_of(kind: type[Any], fields: Mapping[str, Field], path: str, value: Any) -> Any:
    """Return the instance that a dict makes; keys that are no fields are left out."""
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise PayloadError(path, f"must be dict, for {kind.__name__}, not {type(value).__name__}")
    given = {
        name: field.convert(path + step_to(name), value[name])
        for name, field in fields.items()
        if name in value
    }
    for name, field in fields.items():
        if field.is_required and name not in given:
            raise PayloadError(path + step_to(name), f"{kind.__name__} needs it")
    return accepted(kind, path, lambda: kind(**given))


def _hints(kind: type[Any]) -> dict[str, Any]:
    try:
        return get_type_hints(kind, include_extras=True)
    except NameError as error:
        raise ConfigurationError(
            f"the fields of {kind.__qualname__} cannot be resolved: {error}; what they name must "
            "be known at run time, in the module of the class"
        ) from error
