"""Schedules in which exploration once found something wrong, each played again."""

import pytest

from fairlane import Lease
from fairlane.transport._claim import Claimer
from property.explorer import replay
from property.small_scenes import SCENES

LATE_FIRST_LEASE = "v v v v clock!jump v v w w w w"
"""The first lease of `claim_many` runs out, and is taken over, while the second is claimed."""


async def test_claim_many_gives_back_what_ran_out_while_others_were_claimed() -> None:
    await replay(SCENES["claim_of_two_groups_and_work"], LATE_FIRST_LEASE)


async def test_schedule_goes_wrong_where_claim_many_gives_nothing_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def all_of_them(_: object, leases: list[Lease[int]], __: float) -> list[Lease[int]]:
        return leases

    monkeypatch.setattr(Claimer, "without_late", all_of_them)
    with pytest.raises(AssertionError, match="I3"):
        await replay(SCENES["claim_of_two_groups_and_work"], LATE_FIRST_LEASE)
