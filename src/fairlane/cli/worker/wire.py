"""A child's end of the wire to its supervisor: a plan comes first, then orders; health goes out.

Its end is that of the supervisor, however that has died: nobody else holds the other end.
"""

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from fairlane.cli.worker.health import Document
from fairlane.cli.worker.plan import Plan
from fairlane.cli.worker.stopping import Step, Steps

__all__ = ("ORDERS", "Wire")

logger: logging.Logger = logging.getLogger(__name__)

ORDERS = {Step.DRAIN: b"drain", Step.CANCEL: b"cancel"}


class Wire:
    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._socket = socket.socket(fileno=descriptor)
        self._lines = self._socket.makefile("rb")

    def plan(self) -> Plan:
        """Return what the supervisor says first. Raises `EOFError` if it has gone already."""
        line = self._lines.readline()
        if not line.endswith(b"\n"):
            raise EOFError("the supervisor has gone")
        return Plan.from_json(line)

    def follow(self, steps: Steps, patience: Callable[[], float]) -> None:
        """Obey the supervisor from now on, in a thread: a loop that hangs must not outlive it.

        `patience` tells how many seconds an orphan may take to drain.
        """
        threading.Thread(target=self._follow, args=(steps, patience), daemon=True).start()

    def tell(self, health: Document) -> None:
        """Send how the process is doing; a supervisor that does not listen misses it."""
        line = json.dumps(health).encode() + b"\n"
        with suppress(OSError):  # full, or nobody is there: the thread notices
            self._socket.send(line, socket.MSG_DONTWAIT)

    def close(self) -> None:
        self._lines.close()
        self._socket.close()

    def _follow(self, steps: Steps, patience: Callable[[], float]) -> None:
        with suppress(OSError):  # reset
            for line in self._lines:
                for step, order in ORDERS.items():
                    if line == order + b"\n":
                        steps.reach(step)
        logger.warning("the supervisor has gone: this worker drains, and ends")
        steps.reach(Step.DRAIN)
        time.sleep(patience())
        steps.reach(Step.LEAVE)
