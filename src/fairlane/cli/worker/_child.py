"""One process of `fairlane worker --processes N`: `python -m fairlane.cli.worker._child FD TARGET`.

What it shall do comes over the wire `FD`; `TARGET` is there for whoever looks at the processes.
"""

import sys

from fairlane.cli.outcome import OK
from fairlane.cli.worker.process import work
from fairlane.cli.worker.wire import Wire

__all__ = ("main",)


def main() -> int:
    wire = Wire(int(sys.argv[1]))
    try:
        plan = wire.plan()
    except EOFError:
        return OK
    return work(plan, wire=wire)


if __name__ == "__main__":
    sys.exit(main())
