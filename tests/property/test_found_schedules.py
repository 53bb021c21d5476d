"""Schedules in which exploration once found something wrong, each played again."""

import pytest

from property.explorer import replay
from property.small_scenes import SCENES

FOUND = {
    "claim_many handed out a first lease that had run out while the second was claimed": (
        "claim_of_two_groups_and_work",
        "v v v v clock!jump v v w w w w",
    ),
}


@pytest.mark.parametrize(("scene", "moves"), FOUND.values(), ids=FOUND)
async def test_schedule_that_once_went_wrong_is_right(scene: str, moves: str) -> None:
    await replay(SCENES[scene], moves)
