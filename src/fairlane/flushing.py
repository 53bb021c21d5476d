"""Group commit: calls made at the same time share one flush."""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import anyio

from fairlane.shield import DEADLINE, outlast

__all__ = ("Call", "Flush", "Flushes")

T = TypeVar("T")
R = TypeVar("R")

PATIENCE = 1.0
"""Seconds after which a flush that is not answered no longer holds up the next one."""

DRAIN_SECONDS = 5.0
"""For so long a server that does not answer holds up the end."""

Flush = Callable[[Sequence[T]], Coroutine[Any, Any, Sequence[R | Exception]]]
"""Does something for all items, in order, and returns a result or an error for each."""


@dataclass(eq=False, slots=True)
class Call(Generic[T, R]):
    """What one caller waits for."""

    item: T
    answer: asyncio.Future[R]

    def end(self, result: R | BaseException) -> None:
        if self.answer.done():  # its caller has given up
            return
        if isinstance(result, asyncio.CancelledError):
            self.answer.cancel()
        elif isinstance(result, BaseException):
            self.answer.set_exception(result)
            self.answer.exception()  # a caller that was cancelled never asks for it
        else:
            self.answer.set_result(result)


class Flushes(Generic[T, R]):
    """While one flush is on its way the next one gathers: alone, a call waits for nobody.

    Its callers are its only buffer: each waits until its own item is done, so whoever makes no more
    calls than it can wait for is held back by the server, and by nothing else.

    Args:
        flush: does the work. If it raises, each caller gets that error.
        most: items in one flush.
        heaviest: how much they weigh together; one that weighs more goes alone.
    """

    def __init__(
        self,
        flush: Flush[T, R],
        *,
        most: int,
        heaviest: float = math.inf,
        weigh: Callable[[T], int] = lambda _: 0,
    ) -> None:
        self._flush = flush
        self._most = most
        self._heaviest = heaviest
        self._weigh = weigh
        self._waiting: deque[Call[T, R]] = deque()
        self._flights: dict[asyncio.Future[None], list[Call[T, R]]] = {}
        self._newest: asyncio.Future[None] | None = None
        self._overdue: asyncio.TimerHandle | None = None

    async def call(self, item: T) -> R:
        """Return the result for this item, or raise its error.

        Cancelled before its flush has begun, it has done nothing. Later the flush goes on, for all
        who share it; it is waited for, `fairlane.shield.DEADLINE` seconds at most.
        """
        call: Call[T, R] = Call(item, asyncio.get_running_loop().create_future())
        self._waiting.append(call)
        if self._newest is None:
            self._launch()
        try:
            await asyncio.wait((call.answer,))
        except asyncio.CancelledError:
            await self._leave(call)
            raise
        return call.answer.result()

    async def drain(self) -> None:
        """Wait until everything that was called for is done, `DRAIN_SECONDS` at most."""
        with anyio.move_on_after(DRAIN_SECONDS):
            while self._flights:
                await asyncio.wait(self._flights)

    async def _leave(self, call: Call[T, R]) -> None:
        if call in self._waiting:
            self._waiting.remove(call)
        else:
            await outlast(call.answer, DEADLINE)
        call.answer.cancel()
        self._break_off(call)

    def _break_off(self, call: Call[T, R]) -> None:
        """Cancel the flight of this call if nobody waits for it any more."""
        for flight, calls in list(self._flights.items()):
            if call in calls and all(each.answer.done() for each in calls):
                del self._flights[flight]
                flight.cancel()

    def _launch(self) -> None:
        """Send what waits. Its task begins a moment later: who calls meanwhile comes along.

        In a context of its own: what one caller has set, a `pymongo.timeout` for one, is not for
        those who share its flush.
        """
        loop, calls, context = asyncio.get_running_loop(), list[Call[T, R]](), Context()
        flight = self._newest = loop.create_task(self._fly(calls), context=context)
        self._flights[flight] = calls
        flight.add_done_callback(self._landed, context=context)
        if self._overdue is not None:
            self._overdue.cancel()
        self._overdue = loop.call_later(PATIENCE, self._overtake, context=context)

    def _overtake(self) -> None:
        """Go on beside a flight that is not answered."""
        self._newest = None
        if self._waiting:
            self._launch()

    def _landed(self, flight: asyncio.Future[None]) -> None:
        is_broken_off = self._flights.pop(flight, None) is None
        if flight.cancelled() and not is_broken_off:  # the event loop ends, and cancels every task
            while self._waiting:
                self._waiting.popleft().end(asyncio.CancelledError())
        if flight is not self._newest:  # another one has overtaken it
            return
        self._newest = None
        if self._overdue is not None:
            self._overdue.cancel()
        if self._waiting:
            self._launch()

    async def _fly(self, calls: list[Call[T, R]]) -> None:
        calls += self._next()
        if not calls:  # all were cancelled in the last moment
            return
        try:
            _answer(calls, await self._flush([each.item for each in calls]))
        except BaseException as error:
            _answer(calls, [error] * len(calls))
            if not isinstance(error, Exception):
                raise

    def _next(self) -> list[Call[T, R]]:
        calls: list[Call[T, R]] = []
        weight = 0
        while self._waiting and len(calls) < self._most:
            weight += self._weigh(self._waiting[0].item)
            if calls and weight > self._heaviest:
                break
            calls.append(self._waiting.popleft())
        return calls


def _answer(calls: Sequence[Call[T, R]], results: Sequence[R | BaseException]) -> None:
    for call, result in zip(calls, results, strict=True):
        call.end(result)
