"""The lookout of a soak finds groups without a lock, and no others."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from soak.lookout import Lookout

MESSAGE = {"_id": 1, "group_id": "g"}
LOCK = {"_id": "g"}


class Collection:
    """Returns other documents at each look."""

    def __init__(self, *looks: list[dict[str, Any]]) -> None:
        self._looks = iter(looks)

    async def find(self, *_: object) -> AsyncIterator[dict[str, Any]]:
        for document in next(self._looks):
            yield document


@pytest.mark.parametrize(
    ("before", "locks", "after", "returned", "unlocked"),
    [
        ([MESSAGE], [], [MESSAGE], [1], {"g"}),
        ([MESSAGE], [LOCK], [MESSAGE], [1], set()),
        ([MESSAGE], [], [], [1], set()),
        ([], [], [MESSAGE], [1], set()),
        ([MESSAGE], [], [MESSAGE], [], set()),
    ],
    ids=["stranded", "locked", "settled-meanwhile", "published-meanwhile", "not-yet-published"],
)
async def test_only_a_published_message_that_stays_without_a_lock_is_found(
    before: list[Any], locks: list[Any], after: list[Any], returned: list[int], unlocked: set[str]
) -> None:
    database = SimpleNamespace(
        fairlane_messages=Collection(before, after), fairlane_locks=Collection(locks)
    )
    publishing: Any = SimpleNamespace(published=[SimpleNamespace(seq=seq) for seq in returned])
    lookout = Lookout(database, publishing)
    await lookout.look()
    assert lookout.unlocked == unlocked
