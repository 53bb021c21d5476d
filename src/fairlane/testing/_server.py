"""A real server for tests and demos: started in a moment, gone without a trace."""

import random
import shlex
import signal
import socket
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from fairlane.errors import FairlaneError, ServerUnreachable
from fairlane.testing._kept import Kept
from fairlane.testing._programs import Program, choose

if TYPE_CHECKING:
    from pymongo import MongoClient

__all__ = ("LocalServer", "local_server")

# Below the range from which Linux, macOS and Windows take ports for outgoing connections: while a
# server restarts, a client that keeps trying a port of that range may end up connected to itself.
PORTS = range(20_000, 32_000)
PORT_ATTEMPTS = 5
ALREADY_INITIATED = 23


def local_server(*, plain: bool = False, sync_on_commit: bool = False) -> "LocalServer":
    """Run a server of its own for the length of a `with` or `async with` block.

    It is `mongod` if that is on the PATH, else SecantusDB (extra `server`), in a separate process
    on a free port with its own temporary folder. On entry it answers; on exit the process and the
    folder are gone, and also when this process is ended by SIGKILL.

    Args:
        plain: start SecantusDB without Fairlane's repairs. It then loses `updateOne` races and is
            slow with more than a few hundred documents. No effect on `mongod`.
        sync_on_commit: make SecantusDB write through to the disk, so that what was acknowledged
            survives `kill()`. `mongod` does so anyway for majority writes.

    Raises:
        ConfigurationError: there is neither `mongod` nor the right version of SecantusDB.
        ServerUnreachable: it did not answer in time; the message holds its last log lines.

    ```python
    async with local_server() as server:
        transport = AsyncMongoTransport.from_url(server.url)
    ```
    """
    return LocalServer(choose(plain=plain, sync_on_commit=sync_on_commit))


class LocalServer:
    """A running local server; `local_server()` makes one.

    Its methods block until done; asynchronous code calls them in a thread
    (`anyio.to_thread.run_sync(server.restart)`).

    Attributes:
        url: where it listens; stays the same over restarts.
        name: what it is, to be named beside every measurement.
        pid: of the server process.
    """

    url: str
    name: str
    pid: int

    def __init__(self, program: Program, *, startup_timeout: float = 30.0) -> None:
        self._program = program
        self._startup_timeout = startup_timeout
        self._kept: Kept | None = None
        self._port = 0
        self._lock = threading.Lock()  # a cancelled start may still run when the exit comes

    def __enter__(self) -> "LocalServer":
        with self._lock:
            if self._kept is not None:
                raise FairlaneError("this local server runs already; make another one")
            self._kept = Kept(self._program.command)
            try:
                self._start_on_free_port()
            except BaseException:
                self._close()
                raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            self._close()

    async def __aenter__(self) -> "LocalServer":
        from anyio import to_thread

        try:
            return await to_thread.run_sync(self.__enter__)
        except BaseException:
            await self.__aexit__(None, None, None)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        from anyio import CancelScope, to_thread

        with CancelScope(shield=True):
            await to_thread.run_sync(self.__exit__, kind, error, traceback)

    def kill(self) -> None:
        """End the server by SIGKILL, as a crash would; `restart` brings it back with its data."""
        self._running().kill()

    def restart(self) -> None:
        """Start again on the same port and folder; a running server is asked to end first."""
        kept = self._running()
        with self._lock:
            self.pid = kept.start(self._port)
            self._await_answer(kept)

    def pause(self) -> None:
        """Freeze the server (SIGSTOP): connections stay open and nothing is answered."""
        self._running().signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on (SIGCONT)."""
        self._running().signal(signal.SIGCONT)

    def _running(self) -> Kept:
        if self._kept is None:
            raise FairlaneError("this local server is not running; enter it with `with` first")
        return self._kept

    def _close(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()

    def _start_on_free_port(self) -> None:
        kept = self._running()
        for attempts_left in reversed(range(PORT_ATTEMPTS)):
            self._port = free_port()
            self.url = f"mongodb://127.0.0.1:{self._port}/?heartbeatFrequencyMS=500"
            self.pid = kept.start(self._port)
            try:
                self._await_answer(kept)
                return
            except ServerUnreachable:
                if not attempts_left or "in use" not in kept.log_tail():
                    raise

    def _await_answer(self, kept: Kept) -> None:
        deadline = time.monotonic() + self._startup_timeout
        while not _accepts(self._port):
            self._check_start(kept, deadline, "it listens to nobody")
            time.sleep(0.02)
        with _client(self._port) as client:
            while (problem := self._problem(client)) is not None:
                self._check_start(kept, deadline, problem)
                time.sleep(0.05)

    def _problem(self, client: "MongoClient[dict[str, Any]]") -> str | None:
        """Say why the server is not ready; None if our own server answers as a primary."""
        from pymongo.errors import PyMongoError

        try:
            status = client.admin.command("serverStatus")
            if status["pid"] != self.pid:
                return f"port {self._port} is answered by another server, pid {status['pid']}"
            self.name = self._program.name.format(version=status["version"])
            if self._program.replica_set is not None:
                _initiate(client, self._program.replica_set, self._port)
            is_primary = client.admin.command("hello").get("isWritablePrimary")
            return None if is_primary else "it is not primary yet"
        except PyMongoError as error:
            return str(error)

    def _check_start(self, kept: Kept, deadline: float, problem: str) -> None:
        status = kept.exit_status()
        if status is not None:
            problem = f"it ended with status {status}"
        elif time.monotonic() < deadline:
            return
        else:
            problem = f"not ready within {self._startup_timeout:g} s: {problem}"
        raise ServerUnreachable(
            f"the local server did not start: {problem}\n"
            f"command: {shlex.join(self._program.command)}\n"
            f"its last words:\n{kept.log_tail() or '(none)'}"
        )


def free_port() -> int:
    """Return a port nobody listens on at the moment."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _client(port: int) -> "MongoClient[dict[str, Any]]":
    from pymongo import MongoClient

    return MongoClient(
        f"mongodb://127.0.0.1:{port}/?directConnection=true", serverSelectionTimeoutMS=1_000
    )


def _initiate(client: "MongoClient[dict[str, Any]]", name: str, port: int) -> None:
    from pymongo.errors import OperationFailure

    members = [{"_id": 0, "host": f"127.0.0.1:{port}"}]
    try:
        client.admin.command("replSetInitiate", {"_id": name, "members": members})
    except OperationFailure as error:
        if error.code != ALREADY_INITIATED:
            raise
