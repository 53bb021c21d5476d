"""Dead letters, disturbed at every driver call (faults 10 and 14): in one place, never two or none.

A message is visible in its group (`peek`) or among the dead letters.
"""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from property.scenes import EXPIRY, FINAL, died, is_decided, leased
from property.scenes import MOVES as LEASE_MOVES
from property.script import Happening, Script, at_every_point, cancel, crash, fail
from property.world import Participant, Stage, World

INTERRUPTIONS: dict[str, Happening] = {"crash": crash, "error": fail(), "cancel": cancel}
MOVES = ("repair", "dead_letters", "redrive", "claim")

IN_MEMORY = pytest.mark.memory_only


@pytest.fixture(
    params=["crash", *(pytest.param(name, marks=IN_MEMORY) for name in ("error", "cancel"))]
)
def interruption(request: pytest.FixtureRequest) -> Happening:
    return INTERRUPTIONS[request.param]


async def places(world: World) -> list[str]:
    """Return where a reader sees the first message: in its group, among the dead, or both."""
    reader = await world.join()
    dead = ["dead" for event in await reader.dead_events() if event == 0]
    return dead + ["group" for event in await reader.waiting_events() if event == 0]


async def dead_lettered(world: World, *, is_moved: bool = True) -> None:
    """Dead-letter the first of two messages; leave the move to others if it is not moved."""
    worker = await world.join()
    lease = await leased(world, worker)
    if is_moved:
        await worker.dead_letter(lease)
    else:
        await died(world, "messages.find_one", lambda dying: dying.dead_letter(lease))


def move_of(name: str, mover: Participant) -> Coroutine[Any, Any, object]:
    moves: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "repair": mover.repair,
        "dead_letters": mover.dead_events,
        "redrive": mover.redrive,
        "claim": mover.claim,
    }
    return moves[name]()


async def test_interrupted_dead_letter_leaves_the_message_in_one_place(
    stage: Stage, interruption: Happening
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        worker = await world.join(script)
        lease = await leased(world, worker)
        await script.run(worker.dead_letter(lease))
        assert len(await places(world)) == 1
        await world.check()

    await at_every_point(interruption, scenario)


async def test_reader_sees_the_message_in_one_place_while_it_is_dead_lettered(
    stage: Stage,
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        worker = await world.join(script)
        lease = await leased(world, worker)

        async def look(_: Script) -> None:
            assert len(await places(world)) == 1

        script.happening = look
        assert (await script.run(worker.dead_letter(lease))).result()
        await world.check()

    await at_every_point(None, scenario)


@pytest.mark.parametrize(
    "other_move",
    [
        "repair",
        "redrive",
        *(pytest.param(name, marks=IN_MEMORY) for name in ("dead_letters", "claim")),
    ],
)
@pytest.mark.parametrize(
    "move", ["repair", *(pytest.param(name, marks=IN_MEMORY) for name in MOVES[1:])]
)
async def test_two_movers_of_one_message_leave_it_in_one_place(
    stage: Stage, move: str, other_move: str
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        await dead_lettered(world, is_moved=False)
        mover, other = await world.join(script), await world.join()
        script.happening = lambda _: move_of(other_move, other)
        (await script.run(move_of(move, mover))).result()
        assert len(await places(world)) == 1
        world.clock.advance(EXPIRY)
        await world.check()

    await at_every_point(None, scenario)


@pytest.mark.parametrize(
    "move", ["repair", *(pytest.param(name, marks=IN_MEMORY) for name in ("dead_letters", "claim"))]
)
async def test_move_that_is_interrupted_leaves_the_message_in_one_place(
    stage: Stage, move: str, interruption: Happening
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        await dead_lettered(world, is_moved=False)
        await script.run(move_of(move, await world.join(script)))
        assert len(await places(world)) == 1
        world.clock.advance(EXPIRY)
        await world.check()

    await at_every_point(interruption, scenario)


@pytest.mark.parametrize("is_moved", [True, False], ids=["at-rest", "noted"])
@pytest.mark.parametrize(
    "interrupted_by",
    [
        "crash",
        pytest.param("error", marks=IN_MEMORY),
        pytest.param("cancel", marks=IN_MEMORY),
    ],
)
async def test_interrupted_redrive_leaves_the_message_in_one_place(
    stage: Stage, is_moved: bool, interrupted_by: str
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        await dead_lettered(world, is_moved=is_moved)
        mover = await world.join(script)
        await script.run(mover.redrive())
        assert len(await places(world)) == 1
        await world.check()

    await at_every_point(INTERRUPTIONS[interrupted_by], scenario)


@IN_MEMORY
async def test_interrupted_redrive_is_completed_by_repair(
    stage: Stage, interruption: Happening
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        await dead_lettered(world)
        mover, other = await world.join(script), await world.join()
        await script.run(mover.redrive())
        await other.repair()
        assert len(await places(world)) == 1
        await world.check()

    await at_every_point(interruption, scenario)


async def test_redriven_message_is_delivered_once_whoever_redrives_as_well(
    stage: Stage,
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        await dead_lettered(world)
        mover, other = await world.join(script), await world.join()
        script.happening = lambda _: other.redrive()
        (await script.run(mover.redrive())).result()
        assert sorted(await world.drain(other)) == [0, 1]
        await world.check()

    await at_every_point(None, scenario)


@pytest.mark.parametrize("move", ["repair", "redrive"])
async def test_redriven_message_that_is_settled_meanwhile_does_not_come_back(
    stage: Stage, move: str
) -> None:
    """The redrive is completed, and its message settled, while a second one is at work."""

    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        await dead_lettered(world)
        await died(world, "messages.insert", Participant.redrive)
        mover, other = await world.join(script), await world.join()

        async def complete_and_settle(_: Script) -> None:
            await other.repair()
            await world.drain(other)

        script.happening = complete_and_settle
        (await script.run(move_of(move, mover))).result()
        await world.check()

    await at_every_point(None, scenario)


async def test_message_that_is_redriven_and_settled_during_a_slow_move_does_not_come_back(
    stage: Stage,
) -> None:
    """One mover is slow; meanwhile another moves, redrives and settles the same message."""

    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        await dead_lettered(world, is_moved=False)
        mover, other = await world.join(script), await world.join()

        async def whole_after_life(_: Script) -> None:
            await other.redrive()
            await world.drain(other)

        script.happening = whole_after_life
        (await script.run(mover.dead_events())).result()
        await world.check()

    await at_every_point(None, scenario)


async def test_worker_that_moves_its_own_letter_slowly_does_not_bring_it_back(
    stage: Stage,
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        worker, other = await world.join(script), await world.join()
        lease = await leased(world, worker)

        async def whole_after_life(_: Script) -> None:
            await other.redrive()
            await world.drain(other)

        script.happening = whole_after_life
        (await script.run(worker.dead_letter(lease))).result()
        await world.check()

    await at_every_point(None, scenario)


@IN_MEMORY
async def test_redriven_message_may_die_again(stage: Stage) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        await dead_lettered(world)
        mover, other = await world.join(script), await world.join()

        async def let_it_die(_: Script) -> None:
            while lease := await other.claim():
                await other.dead_letter(lease)

        script.happening = let_it_die
        (await script.run(mover.redrive())).result()
        await let_it_die(script)
        assert await places(world) == ["dead"]
        await world.check()

    await at_every_point(None, scenario)


@IN_MEMORY
@pytest.mark.parametrize("move", ["ack", "nack", "dead_letter", "release"])
async def test_redriven_message_is_settled_as_any_other_wherever_it_is_interrupted(
    stage: Stage, move: str, interruption: Happening
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        worker, other = await world.join(script), await world.join()
        await dead_lettered(world)
        await other.ack(await other.claimed())
        await other.redrive()
        lease = await worker.claimed()
        await script.run(LEASE_MOVES[move](worker, lease))
        world.clock.advance(EXPIRY)
        is_settled = move in FINAL and (is_decided(script) or interruption is cancel)
        assert await world.drain(other) == [0] * (not is_settled)
        await world.check()

    await at_every_point(interruption, scenario)


@IN_MEMORY
async def test_claim_of_a_redriven_message_may_be_interrupted(
    stage: Stage, interruption: Happening
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        worker, other = await world.join(script), await world.join()
        await dead_lettered(world)
        await other.ack(await other.claimed())
        await other.redrive()
        await script.run(worker.claim())
        world.clock.advance(EXPIRY)
        assert await world.drain(other) == [0]
        await world.check()

    await at_every_point(interruption, scenario)
