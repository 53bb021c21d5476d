"""Handle SIGINT and SIGTERM for as long as a pool runs."""

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ("handled",)

logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def handled(action: Callable[[], None]) -> Iterator[None]:
    """Call `action` for each signal; put the previous handlers back afterwards.

    `signal.signal` and not the event loop's own table: what is put back is exactly what was
    there, and a handler that the application has given to its loop goes on being called.
    Python allows this in the main thread only; elsewhere nothing is installed.
    """
    if threading.current_thread() is not threading.main_thread():
        logger.warning("signals=True has no effect outside the main thread")
        yield
        return
    previous = {number: signal.signal(number, lambda *_: action()) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            # None: it was not installed from Python, and cannot be put back from here.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
