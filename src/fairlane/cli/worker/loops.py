"""Which event loop a worker process runs in."""

import asyncio
import importlib
from collections.abc import Callable

from fairlane.cli.outcome import Refused
from fairlane.cli.worker.plan import LoopName

__all__ = ("LoopFactory", "loop_factory")

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def loop_factory(name: str) -> LoopFactory | None:
    """Return what makes the loop; None stands for asyncio's own. Raises `Refused`."""
    if name == LoopName.ASYNCIO:
        return None
    try:
        factory: LoopFactory = importlib.import_module("uvloop").new_event_loop
    except ImportError:
        if name == LoopName.AUTO:
            return None
        raise Refused("uvloop is not installed: pip install uvloop, or --loop asyncio") from None
    return factory
