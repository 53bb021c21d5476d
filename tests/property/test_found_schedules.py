"""Schedules in which exploration once found something wrong, each played again."""

import pytest

from fairlane.transport import _claim
from property.explorer import replay
from property.small_scenes import SCENES

LATE_LEASE = "w w clock!jump v v v v v v v v v v v v v w v v v w w"
"""A lease runs out, and is taken over, before the head of its group has been read."""


async def test_claim_gives_back_what_ran_out_before_its_head_was_read() -> None:
    await replay(SCENES["claim_of_two_groups_and_work"], LATE_LEASE)


async def test_schedule_goes_wrong_where_claims_hand_out_late_leases(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_claim, "by_freshness", lambda leases, *_, **__: (leases, []))
    with pytest.raises(AssertionError, match="epoch"):
        await replay(SCENES["claim_of_two_groups_and_work"], LATE_LEASE)
