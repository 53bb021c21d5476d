"""The test process's end of `_keeper.py`."""

import contextlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from fairlane.errors import FairlaneError

__all__ = ("Kept",)

QUIT_SECONDS = 20.0


class Kept:
    """A server process run by a keeper, which ends it whatever happens to this process."""

    def __init__(self, command: Sequence[str]) -> None:
        script = Path(__file__).with_name("_keeper.py")
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", str(script), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the tests; they end the server themselves
        )
        try:
            self.folder = Path(self._read().removeprefix("folder "))
        except BaseException:
            self.close()
            raise

    def start(self, port: int) -> int:
        """Start the server, after the end of a running one; return its pid."""
        return int(self._ask(f"start {port}").removeprefix("running "))

    def stop(self) -> None:
        """Ask the server to end, then make it, and wait until it is gone."""
        self._ask("stop")

    def kill(self) -> None:
        """End the server by SIGKILL and wait until it is gone."""
        self._ask("kill")

    def signal(self, number: int) -> None:
        self._ask(f"signal {number}")

    def exit_status(self) -> int | None:
        """Return the exit status of the server, or None while it runs."""
        state, _, number = self._ask("status").partition(" ")
        return None if state == "running" else int(number)

    def log_tail(self, lines: int = 15) -> str:
        """Return the last lines the server wrote."""
        log = self.folder / "server.log"
        if not log.exists():
            return ""
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])

    def close(self) -> None:
        """End the server and the keeper, and remove the folder."""
        with contextlib.suppress(FairlaneError):  # the keeper is gone already
            self._write("quit")  # the pipe's end alone would not do: a forked child may hold a copy
        try:
            self._keeper.wait(QUIT_SECONDS)
        finally:
            for pipe in (self._keeper.stdin, self._keeper.stdout):
                with contextlib.suppress(BrokenPipeError):  # the keeper was ended by others
                    if pipe is not None:
                        pipe.close()

    def _ask(self, request: str) -> str:
        self._write(request)
        return self._read()

    def _write(self, line: str) -> None:
        assert self._keeper.stdin is not None
        try:
            self._keeper.stdin.write(f"{line}\n")
            self._keeper.stdin.flush()
        except BrokenPipeError as error:
            raise FairlaneError(_GONE) from error

    def _read(self) -> str:
        assert self._keeper.stdout is not None
        line = self._keeper.stdout.readline().strip()
        if not line:
            raise FairlaneError(_GONE)
        return line


_GONE = "the process that keeps the local server was ended by somebody else; start a new server"
