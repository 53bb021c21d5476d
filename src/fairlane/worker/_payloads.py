"""What a handler's annotation says about the events that it wants: `Lease[Order]`."""

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from fairlane.conversion import Convert, bare, converter
from fairlane.errors import ConfigurationError
from fairlane.model import Lease

__all__ = ("payload_converter",)

SILENT: tuple[Any, ...] = (inspect.Parameter.empty, Any, object)
UNIONS: tuple[Any, ...] = (Union, types.UnionType)


def payload_converter(handler: Callable[..., Any]) -> Convert | None:
    """Return what makes an event of a stored value; None if the handler takes it as it is.

    Raises:
        ConfigurationError: the annotation cannot be resolved, or is of something else than a lease.
    """
    annotation = bare(_annotation(handler))
    if _says_nothing(annotation):
        return None
    alternatives = get_args(annotation) if get_origin(annotation) in UNIONS else (annotation,)
    leases = [each for each in map(bare, alternatives) if (get_origin(each) or each) is Lease]
    if len(leases) != 1:
        raise ConfigurationError(
            f"{_name(handler)} gets a Lease, so its argument is not {_shown(annotation)}: "
            "annotate it as Lease[...] with the class of its events, or not at all"
        )
    try:
        return next(map(converter, get_args(leases[0])), None)
    except ConfigurationError as error:
        raise ConfigurationError(f"the annotation of {_name(handler)}: {error}") from error


def _says_nothing(annotation: Any) -> bool:
    return (
        annotation in SILENT
        or isinstance(annotation, TypeVar)
        or getattr(annotation, "_is_protocol", False)
    )


def _annotation(handler: Callable[..., Any]) -> Any:
    """Return the annotation of the first argument, resolved where it is text."""
    try:
        first, *_ = inspect.signature(handler).parameters.values()
    except (TypeError, ValueError):  # some functions written in C do not tell
        return inspect.Parameter.empty
    names = {"Lease": Lease, **_names_known_to(_function_of(handler))}
    holder = types.SimpleNamespace(__annotations__={"lease": first.annotation})
    try:
        return get_type_hints(holder, names, names, include_extras=True)["lease"]
    except Exception as error:  # an annotation is any expression
        raise ConfigurationError(
            f"the annotation {first.annotation!r} of {_name(handler)} cannot be resolved: {error}. "
            "What it names must be known at run time, not only to type checkers, in the module of "
            "the handler; or leave the annotation out"
        ) from error


def _function_of(handler: Any) -> Any:
    """Return the function in which the annotations of a handler were written."""
    if isinstance(handler, functools.partial):
        return _function_of(handler.func)
    function = inspect.unwrap(handler)
    return function if inspect.isroutine(function) else inspect.unwrap(type(function).__call__)


def _names_known_to(function: Any) -> dict[str, Any]:
    """Return the names of its module, and those of the functions around it that it uses."""
    names = dict(getattr(function, "__globals__", {}))
    free = getattr(getattr(function, "__code__", None), "co_freevars", ())
    for name, cell in zip(free, getattr(function, "__closure__", None) or (), strict=False):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # it has no value yet
            continue
    return names


def _name(handler: Any) -> str:
    function = handler if inspect.isroutine(handler) else _function_of(handler)
    return f"the handler {getattr(function, '__qualname__', repr(function))}"


def _shown(annotation: Any) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) else repr(annotation)
