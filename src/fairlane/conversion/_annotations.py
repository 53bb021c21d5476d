"""Convert stored values to what an annotation says, if it names a class that they can become.

What is no such class is checked strictly, as BSON has it: no text becomes a number. Converters are
made once; what cannot be converted is refused then.
"""

import dataclasses
import enum
import types
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, is_typeddict
from uuid import UUID

from fairlane.conversion import _values
from fairlane.conversion._dataclasses import Field, fields_of, instance_of
from fairlane.conversion._models import validation_of
from fairlane.conversion._values import Convert
from fairlane.errors import ConfigurationError

__all__ = ("bare", "converter")

SCALARS = (str, int, bool, bytes, datetime, UUID)
LISTS: tuple[Any, ...] = (list, Sequence)
DICTS: tuple[Any, ...] = (dict, Mapping)
UNIONS: tuple[Any, ...] = (Union, types.UnionType)


def converter(annotation: Any) -> Convert | None:
    """Return what converts values to what is annotated; None if that names no class for it.

    Such a class is a pydantic model, or another one with `model_validate`, a dataclass, or a
    `msgspec.Struct`. One of its instances is left as it is.

    Raises:
        ConfigurationError: beside such a class it names a type that no stored value can become.
    """
    return Converters().of(annotation) if _names_a_class(annotation) else None


def _names_a_class(annotation: Any) -> bool:
    kind = bare(annotation)
    return _is_class(kind) or any(_names_a_class(each) for each in get_args(kind))


def _is_class(kind: Any) -> bool:
    return isinstance(kind, type) and (
        dataclasses.is_dataclass(kind) or validation_of(kind) is not None
    )


def bare(annotation: Any) -> Any:
    """Return a type without the names and notes that were given to it."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif hasattr(annotation, "__supertype__"):  # a NewType
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":  # of Python 3.12
            annotation = annotation.__value__
        else:
            return annotation


class Unsupported(ConfigurationError):
    """A type that no stored value can become."""

    def __init__(self, kind: Any, place: str | None = None) -> None:
        self.kind = kind
        super().__init__(
            f"no stored value becomes {kind!r}{f', the type of {place}' if place else ''}: use "
            "what BSON has, lists and dicts of it, enumerations, dataclasses, or a model that "
            "validates by itself, such as one of pydantic"
        )


class Converters:
    """Makes the converters of one annotation, one for each class: a class may contain itself."""

    def __init__(self) -> None:
        self._of_classes: dict[type[Any], Convert] = {}

    def of(self, annotation: Any) -> Convert:
        kind = bare(annotation)
        if kind in (Any, object) or isinstance(kind, TypeVar):
            return _values.unchanged
        origin, arguments = get_origin(kind) or kind, get_args(kind)
        if origin is Literal:
            return partial(_values.one_of, arguments)
        if origin in UNIONS:
            return partial(_values.first_that_fits, [self.of(each) for each in arguments])
        if origin in LISTS or origin is tuple:
            return self._of_items(origin, arguments)
        if origin in DICTS:
            return self._of_values(arguments)
        if isinstance(kind, type) and not arguments:
            return self._of_class(kind)
        raise Unsupported(kind)

    def _of_items(self, origin: Any, arguments: tuple[Any, ...]) -> Convert:
        if origin is not tuple:
            return partial(_values.items, list, self.of(arguments[0] if arguments else Any))
        if not arguments or arguments[1:] == (...,):
            return partial(_values.items, tuple, self.of(arguments[0] if arguments else Any))
        return partial(_values.places, [self.of(each) for each in arguments])

    def _of_values(self, arguments: tuple[Any, ...]) -> Convert:
        keys, values = arguments or (str, Any)
        return partial(_values.values, self.of(keys), self.of(values))

    def _of_fields(self, kind: type[Any]) -> dict[str, Field]:
        """Return the converters of a dataclass's fields, naming the field that cannot have one."""
        fields: dict[str, Field] = {}
        for name, annotation, is_required in fields_of(kind):
            try:
                fields[name] = Field(self.of(annotation), is_required)
            except Unsupported as error:
                raise Unsupported(error.kind, f"{kind.__name__}.{name}") from error
        return fields

    def _of_class(self, kind: type[Any]) -> Convert:
        if kind not in self._of_classes:
            self._of_classes[kind] = lambda path, value: self._of_classes[kind](path, value)
            self._of_classes[kind] = self._made(kind)
        return self._of_classes[kind]

    def _made(self, kind: type[Any]) -> Convert:
        validation = validation_of(kind)
        if validation is not None:
            return partial(_values.valid, kind, validation)
        if dataclasses.is_dataclass(kind):
            return partial(instance_of, kind, self._of_fields(kind))
        if issubclass(kind, enum.Enum):
            return partial(_values.valid, kind, kind)
        if is_typeddict(kind):
            return self._of_values(())
        if kind is float:
            return _values.number
        if kind in (None, types.NoneType) or kind in SCALARS or kind.__module__.startswith("bson"):
            return partial(_values.scalar, kind)
        raise Unsupported(kind)
