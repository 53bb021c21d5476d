"""A driver's call is cancelled once, however often its caller is, and never outlives it."""

import asyncio
import gc
from contextlib import suppress

import anyio
import pytest

from fairlane.driver import _cancelling
from fairlane.driver._cancelling import cancelled_once, guarded
from fairlane.driver._kinds import Kind


class Call:
    """A call that counts how often it is cancelled, and takes its time to end then."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.cancellations = 0
        self.has_ended = False
        self._failure = failure

    async def __call__(self) -> None:
        error: BaseException | None = self._failure
        for _ in range(5):
            try:
                await asyncio.sleep(0 if self.cancellations else 60)
            except asyncio.CancelledError as cancellation:
                self.cancellations += 1
                error = error or cancellation
        self.has_ended = True
        assert error is not None
        raise error


async def fail() -> None:
    raise LookupError


async def test_result_is_returned() -> None:
    assert await cancelled_once(asyncio.sleep(0, "result")) == "result"


async def test_error_is_raised() -> None:
    with pytest.raises(LookupError):
        await cancelled_once(fail())


async def test_scope_that_cancels_again_and_again_cancels_the_call_once() -> None:
    call = Call()
    with anyio.move_on_after(0):
        await cancelled_once(call())
    assert (call.cancellations, call.has_ended) == (1, True)


async def test_cancellation_that_gets_lost_in_the_call_is_repeated() -> None:
    async def lose_one() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        await asyncio.sleep(60)

    with anyio.move_on_after(0) as scope:
        await cancelled_once(lose_one())
    assert scope.cancelled_caught


async def test_cancellation_goes_on_after_the_end_of_the_call() -> None:
    call = Call()
    task = asyncio.ensure_future(cancelled_once(call()))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait((task,))
    assert (task.cancelled(), call.has_ended) == (True, True)


async def test_error_after_a_cancellation_bothers_nobody() -> None:
    stray: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: stray.append(context))
    with anyio.move_on_after(0):
        await cancelled_once(Call(LookupError())())
    gc.collect()
    assert stray == []


@pytest.mark.parametrize(
    ("is_fragile", "kind", "is_cancelled_once"),
    [(True, "pymongo", True), (True, "motor", False), (False, "pymongo", False)],
)
async def test_only_fragile_clients_need_it(
    monkeypatch: pytest.MonkeyPatch, is_fragile: bool, kind: Kind, is_cancelled_once: bool
) -> None:
    monkeypatch.setattr(_cancelling, "IS_FRAGILE", is_fragile)
    call = Call()
    with anyio.move_on_after(0):
        await guarded(kind, call())
    assert (call.cancellations == 1) is is_cancelled_once
