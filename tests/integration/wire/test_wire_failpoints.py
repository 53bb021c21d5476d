"""Errors that the server answers with: on every command that an operation sends (faults 16, 38)."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import product
from typing import Any

import pytest

from fairlane.testing import local_server
from integration.wire.codes import CODES, REPEATED
from integration.wire.listener import Listener
from integration.wire.operations import OPERATIONS, Operation
from integration.wire.play import Player, Trouble
from integration.wire.setups import COVERING, PLAINEST, Setup, setups

TIMES = (1, 2)
"""Once, and so often that the driver's repetition fails as well."""
WRITES = frozenset({"insert", "update", "delete", "findAndModify", "bulkWrite"})
WRITE_CONCERN_TIMEOUT = 64


class FailPoint:
    """Makes the server answer commands of the victim with errors."""

    def __init__(self, admin: Any, victim_name: str, victim: Listener) -> None:
        self._admin = admin
        self._victim_name = victim_name
        self._victim = victim

    def __call__(self, command: str, *, times: int, **data: Any) -> Trouble:
        """Return what lets the server refuse the command so many times in a row."""
        scope = {"failCommands": [command], "appName": self._victim_name}

        @asynccontextmanager
        async def trouble() -> AsyncIterator[None]:
            self._victim.forget()
            await self._configure(mode={"times": times}, data=scope | data)
            yield
            await self.off()
            assert self._victim.refused.count(command) in range(1, times + 1)

        return trouble

    async def off(self) -> None:
        await self._configure(mode="off")

    async def _configure(self, **options: Any) -> None:
        await self._admin.command("configureFailPoint", "failCommand", **options)


@pytest.fixture(scope="module")
def fairlane_url() -> Iterator[str]:
    """A server of our own: failpoints are global."""
    with local_server() as server:
        yield server.url


@pytest.fixture
def victim_url(fairlane_url: str) -> str:
    return f"{fairlane_url}&serverMonitoringMode=poll"


@pytest.fixture
async def fail_point(
    connect: Callable[..., Any], victim_name: str, listener: Listener
) -> AsyncIterator[FailPoint]:
    fail_point = FailPoint(connect("motor").get_database("admin"), victim_name, listener)
    yield fail_point
    await fail_point.off()


Case = tuple[str, int, int]
"""Which command is refused, with which code, how many times."""


def covering(name: str, commands: Sequence[str], setup: Setup) -> Iterator[Case]:
    """Return each command with every code; where the driver repeats it with one, in turn.

    Repeated a command is as good as not refused.
    """
    if not setup.retries:
        for command, code in product(dict.fromkeys(commands), CODES):
            yield command, code, 1
        return
    first = [*OPERATIONS].index(name) + (COVERING.index(setup) if setup in COVERING else 0)
    for number, command in enumerate(dict.fromkeys(commands), first):
        yield command, CODES[number % len(CODES)], TIMES[number // len(CODES) % len(TIMES)]


@pytest.fixture
def refuse(player: Player, fail_point: FailPoint, setup: Setup) -> Callable[..., Awaitable[None]]:
    """Let a command of an operation be refused; the driver's repetition must help if it can."""

    async def refused(operation: Operation, case: Case) -> None:
        command, code, times = case
        outcome = await player.play(operation, fail_point(command, times=times, errorCode=code))
        if code in REPEATED and times == 1 and setup.retries and operation.is_repeatable:
            outcome.result()

    return refused


@setups(*COVERING)
@pytest.mark.parametrize("name", OPERATIONS)
async def test_error_of_the_server_breaks_no_invariant(
    name: str, refuse: Any, commands: Sequence[str], setup: Setup
) -> None:
    for case in covering(name, commands, setup):
        await refuse(OPERATIONS[name], case)


@setups(*COVERING)
@pytest.mark.whole_matrix
@pytest.mark.parametrize("name", OPERATIONS)
async def test_every_error_any_number_of_times_breaks_no_invariant(
    name: str, refuse: Any, commands: Sequence[str]
) -> None:
    for case in product(set(commands), CODES, TIMES):
        await refuse(OPERATIONS[name], case)


@setups(PLAINEST)
@pytest.mark.parametrize("name", OPERATIONS)
async def test_write_that_was_applied_without_its_majority_breaks_no_invariant(
    name: str, player: Player, fail_point: FailPoint, commands: Sequence[str]
) -> None:
    error = {"code": WRITE_CONCERN_TIMEOUT, "errmsg": "waiting for replication timed out"}
    for command in WRITES.intersection(commands):
        trouble = fail_point(command, times=1, writeConcernError=error)
        await player.play(OPERATIONS[name], trouble)
