"""A signal handler may fork while a facade waits: the call is the parent's, not the child's."""

import asyncio
import os
import select
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from fairlane.sync._call import Call, Reply
from fairlane.sync._facade import Facade

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here"),
    # Later Pythons warn of every fork in a program with threads.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

SECONDS = 10.0


class AsyncThing:
    """Signals its process, then waits for an end that only the parent brings."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.may_end = asyncio.Event()

    async def signal_and_wait(self) -> str:
        os.kill(os.getpid(), signal.SIGUSR1)
        await self.may_end.wait()
        return "ended"

    async def echo(self, value: Any) -> Any:
        return value

    def let_end(self) -> None:
        self.loop.call_soon_threadsafe(self.may_end.set)


class Thing(Facade[AsyncThing]):
    _kind = AsyncThing

    def call(self, verb: Callable[[AsyncThing], Awaitable[Any]]) -> Any:
        return self._call(verb)


class Fork:
    """A signal handler that forks once; what happens in the child is told to the parent."""

    def __init__(self) -> None:
        self.child = -1
        self.in_parent: Callable[[], object] = lambda: None
        self.in_child: Callable[[], object] = lambda: None
        self._reads, self._writes = os.pipe()

    def __call__(self, *_: object) -> None:
        self.child = os.fork()
        (self.in_parent if self.child else self.in_child)()

    def run(self, work: Callable[[], Any]) -> tuple[Any, str, float]:
        """Return what `work` returns here, and what becomes of it in the child, and how soon."""
        started_at = time.monotonic()
        try:
            result = work()
        except BaseException as error:
            result = error
        if self.child == 0:
            os.write(self._writes, f"{type(result).__name__}: {result}".encode())
            os._exit(0)
        ready, _, _ = select.select([self._reads], [], [], SECONDS)
        told = os.read(self._reads, 1_000).decode() if ready else "it hangs"
        return result, told, time.monotonic() - started_at

    def close(self) -> None:
        if self.child > 0:
            os.kill(self.child, signal.SIGKILL)
            os.waitpid(self.child, 0)
        os.close(self._reads)
        os.close(self._writes)


@pytest.fixture
def fork() -> Iterator[Fork]:
    fork = Fork()
    before = signal.signal(signal.SIGUSR1, fork)
    try:
        yield fork
    finally:
        signal.signal(signal.SIGUSR1, before)
        fork.close()


@contextmanager
def opened(things: list[AsyncThing]) -> Iterator[Thing]:
    @asynccontextmanager
    async def opener() -> Any:
        things.append(AsyncThing())
        yield things[-1]

    with Thing(opener) as facade:
        yield facade


def test_call_during_which_a_signal_handler_forks_is_an_error_in_the_child(fork: Fork) -> None:
    things: list[AsyncThing] = []
    with opened(things) as thing:
        fork.in_parent = things[0].let_end
        result, told, _ = fork.run(lambda: thing.call(lambda t: t.signal_and_wait()))
    assert result == "ended"
    assert told.startswith("ConfigurationError: this was begun before a fork")


def test_opening_during_which_a_signal_handler_forks_is_an_error_in_the_child(fork: Fork) -> None:
    @asynccontextmanager
    async def opener() -> Any:
        thing = AsyncThing()
        fork.in_parent = thing.let_end
        await thing.signal_and_wait()
        yield thing

    thing = Thing(opener)
    result, told, _ = fork.run(lambda: thing.call(lambda t: t.echo(1)))
    thing.close()
    assert result == 1
    assert told.startswith("ConfigurationError: this was begun before a fork")


def test_child_may_call_again(fork: Fork) -> None:
    things: list[AsyncThing] = []

    def call() -> Any:
        try:
            return thing.call(lambda t: t.signal_and_wait())
        except Exception:
            return thing.call(lambda t: t.echo("again"))

    with opened(things) as thing:
        fork.in_parent = things[0].let_end
        result, told, _ = fork.run(call)
    assert (result, told) == ("ended", "str: again")


def test_result_that_has_come_before_the_fork_is_for_the_parent_only(
    fork: Fork, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = Reply.wait

    def wait_and_be_signalled(reply: Reply[Any]) -> None:
        wait(reply)
        if isinstance(reply, Call) and fork.child < 0:
            fork()

    with opened([]) as thing:
        monkeypatch.setattr(Reply, "wait", wait_and_be_signalled)
        result, told, _ = fork.run(lambda: thing.call(lambda t: t.echo("lease")))
        monkeypatch.undo()
    assert result == "lease"
    assert told.startswith("ConfigurationError: this was begun before a fork")


def test_child_that_a_signal_handler_ends_does_not_cancel_the_call_of_its_parent(
    fork: Fork,
) -> None:
    things: list[AsyncThing] = []

    def leave() -> None:
        raise SystemExit(3)

    fork.in_child = leave
    with opened(things) as thing:
        fork.in_parent = things[0].let_end
        result, told, seconds = fork.run(lambda: thing.call(lambda t: t.signal_and_wait()))
    assert (result, told) == ("ended", "SystemExit: 3")
    assert seconds < 1.0


def test_close_during_which_a_signal_handler_forks_ends_in_the_child(fork: Fork) -> None:
    @asynccontextmanager
    async def opener() -> Any:
        thing = AsyncThing()
        fork.in_parent = thing.let_end
        yield thing
        await thing.signal_and_wait()

    thing = Thing(opener)
    thing.call(lambda t: t.echo(1))
    result, told, seconds = fork.run(thing.close)
    assert (result, told) == (None, "NoneType: None")
    assert seconds < 5.0
