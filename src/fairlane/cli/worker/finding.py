"""The object that a `module:attribute` names."""

import importlib
import sys
from types import ModuleType, TracebackType

from fairlane.cli.outcome import Refused
from fairlane.errors import describe

__all__ = ("Unimportable", "find", "needs_no_loop")

SHOWN = 300
MACHINERY = frozenset(
    {
        __file__,
        importlib.__file__,
        "<frozen importlib._bootstrap>",
        "<frozen importlib._bootstrap_external>",
    }
)


class Unimportable(Exception):
    """The module is there, and raised while it was imported: `__cause__` says where."""


def find(target: str, app_dir: str) -> object:
    """Import the module, looking in `app_dir` first, and return the attribute, dotted or not.

    To be called in the running event loop: a client that the module makes belongs to this loop
    then, and a module that runs a loop of its own is refused by Python instead of binding its
    client to a loop that has ended.

    Raises:
        Refused: there is no such thing.
        Unimportable: the module raised.
    """
    name, attribute = _parts(target)
    if app_dir not in sys.path:
        sys.path.insert(0, app_dir)
    return _attribute(_imported(name, app_dir), attribute)


def needs_no_loop(error: BaseException) -> str:
    """Return what to do about an error of running a loop in the loop; empty if it is none."""
    if isinstance(error, RuntimeError) and "event loop" in str(error):
        return (
            ". The command imports and calls in its own event loop: let an `async def`, or an "
            "@asynccontextmanager, do there what needs one, and name that instead of the pool"
        )
    return ""


def _parts(target: str) -> tuple[str, str]:
    name, _, attribute = target.partition(":")
    if not attribute:
        raise Refused(f"{target!r} is not module:attribute, such as shop.workers:pool")
    is_dotted = all(part.isidentifier() for part in f"{name}.{attribute}".split("."))
    if not is_dotted or name.endswith(".py"):
        raise Refused(
            f"{target!r} is not module:attribute: both are dotted names, such as "
            "shop.workers:pool, and no file names"
        )
    return name, attribute


def _imported(name: str, app_dir: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            raise Refused(
                f"there is no module {error.name!r} in {app_dir} (--app-dir), nor where Python "
                "looks"
            ) from None
        said = describe(error, SHOWN)
        problem = f"cannot import {name!r}: {said}{needs_no_loop(error)}"
        raise Unimportable(problem) from error.with_traceback(_of_the_module(error.__traceback__))


def _of_the_module(trace: TracebackType | None) -> TracebackType | None:
    """Leave out how the module was reached. All of it is shown if it was not reached at all."""
    inner = trace
    while inner is not None and inner.tb_frame.f_code.co_filename in MACHINERY:
        inner = inner.tb_next
    return inner or trace


def _attribute(module: ModuleType, path: str) -> object:
    found: object = module
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise Refused(f"module {module.__name__!r} has no {path!r}") from None
    return found
