"""Commands and replies that get lost: every command of every operation (faults 2, 3, 6, 16)."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from pymongo.errors import AutoReconnect, DuplicateKeyError

from fairlane.clock import ServerClock
from integration.wire.operations import OPERATIONS, Operation
from integration.wire.play import JoinVictim, Player, Trouble
from integration.wire.proxy import Fault, Kind, Proxy
from integration.wire.setups import COVERING, PLAINEST, Setup, setups
from property.script import Outcome
from property.world import ServerStage

ACKS = ("ack", "ack-of-the-last")


def status(client: Any) -> Mapping[str, object]:
    return cast("Mapping[str, object]", client.admin.command("serverStatus"))


def lost(proxy: Proxy, fault: Fault) -> Trouble:
    """Return what lets the proxy lose one command, or its reply."""

    @asynccontextmanager
    async def trouble() -> AsyncIterator[None]:
        proxy.arm(fault)
        yield
        assert proxy.struck == 1
        proxy.arm()

    return trouble


def is_told_apart(outcome: Outcome, setup: Setup) -> bool:
    """Whether the server forgot that it had executed the command.

    SecantusDB keeps no record of retryable bulkWrites: repeated by the driver, the insert of a
    publish meets itself.
    """
    return setup.is_recent and isinstance(outcome.error, DuplicateKeyError)


def expect_decided(operation: Operation, outcome: Outcome, nth: int) -> None:
    """Judge an operation whose clean-up failed."""
    if operation.is_decided_first and nth > 1:
        assert outcome.result() is True


@setups(*COVERING)
@pytest.mark.parametrize("name", OPERATIONS)
async def test_lost_reply_breaks_no_invariant(
    name: str,
    commands: tuple[str, ...],
    player: Player,
    proxy: Proxy,
    setup: Setup,
    janitor: Any,
) -> None:
    operation = OPERATIONS[name]
    if setup.is_recent and setup.retries and name in ACKS and "secantus" in status(janitor):
        pytest.skip("SecantusDB keeps no record of retryable bulkWrites: repeated, it meets itself")
    for nth in range(1, len(commands) + 1):
        outcome = await player.play(operation, lost(proxy, Fault(kind="lose reply", nth=nth)))
        expect_decided(operation, outcome, nth)
        if setup.retries and operation.is_repeatable and not is_told_apart(outcome, setup):
            outcome.result()


@setups(PLAINEST)  # sent again by the driver a command is as good as not lost
@pytest.mark.parametrize("name", OPERATIONS)
async def test_lost_command_breaks_no_invariant(
    name: str, commands: tuple[str, ...], player: Player, proxy: Proxy
) -> None:
    operation = OPERATIONS[name]
    for nth in range(1, len(commands) + 1):
        outcome = await player.play(operation, lost(proxy, Fault(kind="cut before", nth=nth)))
        expect_decided(operation, outcome, nth)


@setups(*COVERING)
@pytest.mark.parametrize("kind", ["lose reply", "cut before"])
async def test_claim_that_loses_its_head_read_gives_the_group_back(
    kind: Kind, stage: ServerStage, join_victim: JoinVictim, proxy: Proxy, setup: Setup
) -> None:
    world = await stage.fresh()
    other, victim = await world.join(), join_victim(world)
    await other.publish()
    head_read = "aggregate" if setup.is_recent else "find"
    proxy.arm(Fault(kind=kind, command=head_read, times=2))  # the driver's repetition fails as well
    with pytest.raises(AutoReconnect):
        await victim.claim()
    assert (await other.claimed()).attempt == 1


@setups(*COVERING)
async def test_lease_whose_head_read_took_long_is_not_handed_out(
    stage: ServerStage, join_victim: JoinVictim, proxy: Proxy
) -> None:
    world = await stage.fresh()
    victim = join_victim(world)
    await (await world.join()).publish()
    victim.transport._store.clock = server_clock = ServerClock()
    proxy.arm(Fault(kind="delay", nth=2, seconds=0.6))
    lease = await victim.claimed(visibility=1.0)
    assert lease.expires_at - server_clock() >= 0.5
