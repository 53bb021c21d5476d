"""Defects that batches and partitions might have: exploration must find each of them."""

from collections.abc import Sequence
from typing import Any

import pytest

from fairlane import Lease
from fairlane.driver import Change, Collection, Driver, Settled, Unit
from fairlane.lease import batch, commands, sweep
from fairlane.lease.batch import Bids
from fairlane.lease.rounds import Skipped
from fairlane.lease.settings import Partitioning
from fairlane.lease.sweep import Sweep
from fairlane.transport._claim import Claimer, Request
from property.explorer import Scene, explore
from property.programs import Programs, claim_two, work
from property.small_scenes import LARGE, SCENES
from property.spoiling import spoil, without
from property.world import World

pytestmark = pytest.mark.usefixtures("silence")


async def expect_found(scene: str | Scene, violation: str) -> None:
    with pytest.raises(AssertionError, match=violation):
        await explore((SCENES | LARGE)[scene] if isinstance(scene, str) else scene)


async def claim_two_and_work(world: World) -> Programs:
    """A part of a scene, in which such defects are found sooner."""
    await (await world.join()).publish_many("g", "h")
    return {"v": claim_two, "w": work}


class CountingSweep(Sweep):
    """What seed 001 describes: rest after as many misses in a row as there are partitions."""

    misses = 0

    @property
    def is_complete(self) -> bool:
        return self.misses >= self.partitions

    def hit(self) -> None:
        self.misses = 0

    def miss(self, partition: int) -> None:
        self.misses += 1

    def start(self) -> None:
        self.misses = 0


async def test_bid_for_what_is_leased_meanwhile_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, commands.still_due, without("available_at"))
    await expect_found(claim_two_and_work, "I3|epoch .* after")


async def test_bids_read_back_without_their_tokens_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spoil(monkeypatch, commands.taken_among, without("token"))
    await expect_found(claim_two_and_work, "I3|epoch .* after")


async def test_bids_given_back_without_their_tokens_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def free_whatever_it_is(collection: Collection, bids: Bids, *, now: float) -> None:
        await collection.update_each([({"_id": key}, commands.given_back(now=now)) for key in bids])

    monkeypatch.setattr(batch, "free_all", free_whatever_it_is)
    await expect_found(claim_two_and_work, "I3|refused while its lease was held")


@pytest.mark.parametrize("verb", ["ack", "nack"])
async def test_settlement_that_is_told_of_all_if_some_matched_is_found(
    monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    tell, settle = Driver.update_and_tell, Driver.settle

    async def tell_of_all(
        self: Driver, collection: Collection, changes: Sequence[Change]
    ) -> list[bool]:
        told = await tell(self, collection, changes)
        return [any(told)] * len(told)

    async def settle_all(self: Driver, units: Sequence[Unit]) -> list[Settled]:
        return [Settled(any(each.is_held for each in await settle(self, units)))] * len(units)

    monkeypatch.setattr(Driver, "update_and_tell", tell_of_all)
    monkeypatch.setattr(Driver, "settle", settle_all)
    await expect_found(
        f"{verb}_many_of_which_one_is_lost", "I3 .* though its group had a new owner"
    )


async def test_settlement_that_is_told_of_none_if_some_did_not_match_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settle = Driver.settle

    async def settle_none(self: Driver, units: Sequence[Unit]) -> list[Settled]:
        return [Settled(all(each.is_held for each in await settle(self, units)))] * len(units)

    monkeypatch.setattr(Driver, "settle", settle_none)
    await expect_found("ack_many_of_which_one_is_lost", "refused while its lease was held|I4")


@pytest.mark.parametrize("scene", ["claim_of_two_groups_and_publish", "slow_claim_and_new_owner"])
async def test_claim_that_keeps_late_leases_is_found(
    monkeypatch: pytest.MonkeyPatch, scene: str
) -> None:
    async def keep(_: object, leases: Sequence[Lease[Any]]) -> None:
        pass

    monkeypatch.setattr(Claimer, "_give_back", keep)
    await expect_found(scene, "neither handed out nor given back")


async def test_sweep_that_counts_its_misses_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "Sweep", CountingSweep)
    await expect_found("work_twice_and_publish", "nothing was claimed")


async def test_claim_that_returns_nothing_when_it_lost_all_it_found_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempt = Claimer._attempt_many

    async def give_up(self: Claimer[Any], request: Request, n: int, way: Sweep) -> Any:
        found = await attempt(self, request, n, way)
        return None if found is Skipped.EMPTY else found

    monkeypatch.setattr(Claimer, "_attempt_many", give_up)
    await expect_found("two_claims_of_two_of_three_groups", "nothing was claimed")


async def test_claim_that_looks_into_one_partition_only_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Sweep, "looks", lambda self, **_: [[self.next()]])
    await expect_found("claim_two_and_publish_into_the_other_partition", "nothing was claimed")


async def test_claimers_that_forget_the_former_partitions_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They look only where things are put from the switch on, as soon as they know of it."""
    span = property(lambda self: self.partitions, lambda self, _: None)
    monkeypatch.setattr(Partitioning, "span", span)
    await expect_found("reconcile_and_publish", "nothing was claimed")
