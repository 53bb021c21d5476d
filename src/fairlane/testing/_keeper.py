"""Run one server process on behalf of a test process, and tidy up when that one is gone.

A script of its own (`python -I -S _keeper.py COMMAND...`), because only a process that outlives a
SIGKILL of the tests can end their server and remove its folder. It imports the standard library
only, so that it starts in a moment. `{folder}` and `{port}` in COMMAND are filled in here.

It says `folder PATH` first and then answers every request line with the state of the server:

    start PORT | signal NUMBER | stop | kill | status  ->  "running PID" | "stopped STATUS"
    quit                                               ->  end of output
"""

import contextlib
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

STOP_SECONDS = 10.0
LOOK_SECONDS = 0.5


class Served:
    """The server process and its folder."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._command = command
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def state(self) -> str:
        if self._process is None:
            return "stopped 0"
        status = self._process.poll()
        return f"running {self._process.pid}" if status is None else f"stopped {status}"

    def start(self, port: str) -> None:
        self._end(STOP_SECONDS)
        command = [
            part.replace("{folder}", str(self._folder)).replace("{port}", port)
            for part in self._command
        ]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def signal(self, number: str) -> None:
        if self._process is not None:
            self._process.send_signal(int(number))

    def stop(self) -> None:
        self._end(STOP_SECONDS)

    def kill(self) -> None:
        self._end(0.0)

    def status(self) -> None:
        """Change nothing; the answer to every request is the state."""

    def _end(self, patience: float) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            return
        if patience:
            process.terminate()
            if hasattr(signal, "SIGCONT"):  # a stopped process sees SIGTERM only when it goes on
                process.send_signal(signal.SIGCONT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience)
        process.kill()
        process.wait()


def requests() -> Iterator[str]:
    """Yield request lines until the tests say `quit`, close the pipe, or are gone.

    The end of the pipe alone is not enough: a forked child of the tests may hold it open.
    """
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    parent = os.getppid()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line.strip())
        lines.put("quit")

    threading.Thread(target=read, daemon=True).start()
    while os.getppid() == parent:
        with contextlib.suppress(queue.Empty):
            line = lines.get(timeout=LOOK_SECONDS)
            if line == "quit":
                return
            yield line


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    folder = Path(tempfile.mkdtemp(prefix="fairlane-"))
    served = Served(sys.argv[1:], folder)
    try:
        _answer(f"folder {folder}")
        for request in requests():
            verb, *arguments = request.split()
            getattr(served, verb)(*arguments)
            _answer(served.state())
    finally:
        served.kill()
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)  # the reader thread still waits on the pipe


def _answer(line: str) -> None:
    print(line, flush=True)  # noqa: T201  the answers are this script's output


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit


if __name__ == "__main__":
    main()
