"""What a piece of work leaves in memory when it is over."""

import gc
import logging
import sys
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ("MEGABYTE", "Growth", "log_of_its_own", "measured", "traced")

MEGABYTE = 1_000_000
NOISE = 50_000
"""Bytes. An event loop keeps some hundred timers that were cancelled."""

OF_TIMERS = {"TimerHandle", "Context", "hamt", "hamt_bitmap_node"}


@dataclass(kw_only=True)
class Growth:
    """What has been added and is still there; known when the work is over.

    Attributes:
        objects: new objects that hold others, by the names of their types.
        blocks: small pieces of memory that are in use besides, of whatever kind.
        size: bytes; 0 if they were not traced.
    """

    objects: Counter[str] = field(default_factory=Counter)
    blocks: int = 0
    size: int = 0

    def assert_flat(self, items: int, *, of: int, noise: int = 100) -> None:
        """Fail unless `of` such items would leave less than a megabyte, and none an object.

        `noise` objects are what the rest of the program does meanwhile.
        """
        assert self.objects.total() < noise + items // 100, self.objects.most_common(5)
        assert self.blocks < 6 * noise + items // 20
        assert self.size < max(NOISE, MEGABYTE * items / of)


@contextmanager
def traced() -> Iterator[None]:
    """Trace memory in here, which makes work three times as long."""
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


@contextmanager
def measured() -> Iterator[Growth]:
    """Measure the work in here, after as much of it that everything has found its size.

    What exists already is frozen, so that only what is new is looked at.
    """
    growth, was_frozen = Growth(), gc.get_freeze_count()
    gc.collect()
    gc.freeze()
    try:
        blocks, (size, _) = sys.getallocatedblocks(), tracemalloc.get_traced_memory()
        yield growth
        gc.collect()
        growth.blocks = sys.getallocatedblocks() - blocks
        growth.size = tracemalloc.get_traced_memory()[0] - size
        kinds = (type(each).__name__ for each in gc.get_objects())
        growth.objects = Counter(kind for kind in kinds if kind not in OF_TIMERS)
    finally:
        if not was_frozen:
            gc.unfreeze()


@contextmanager
def log_of_its_own(handler: logging.Handler) -> Iterator[None]:
    """Give what Fairlane logs to this handler, and not to pytest, which would keep it."""
    logger = logging.getLogger("fairlane")
    before = logger.handlers, logger.propagate
    logger.handlers, logger.propagate = [handler], False
    try:
        yield
    finally:
        logger.handlers, logger.propagate = before
