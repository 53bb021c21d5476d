"""What a claim makes of the documents it found at the front of a group."""

from typing import Any

import pytest

from fairlane.transport._head import head_limit, is_enough, judge


def documents(*seqs: int) -> list[dict[str, Any]]:
    return [{"_id": seq} for seq in seqs]


CASES: dict[str, tuple[list[int], list[int], int | None, bool, list[int], list[int]]] = {
    # name: found, done, head, is last, deletable, undeleted
    "nothing": ([], [], None, True, [], []),
    "one": ([1], [], 1, True, [], []),
    "two": ([1, 2], [], 1, False, [], []),
    "settled one is gone": ([2, 3], [1], 2, False, [], []),
    "settled one is gone, short": ([2], [1], 2, True, [], []),
    "settled one is left": ([1], [1], None, True, [1], []),
    "settled one is left, more": ([1, 2, 3], [1], 2, False, [1], []),
    "settled one is left, one more": ([1, 2], [1], 2, True, [1], []),
    "settled behind a late publish, seen": ([1, 2], [2], 1, True, [2], []),
    "settled behind late publishes, unseen": ([1, 2, 3], [4], 1, False, [], [4]),
    "settled between late publishes": ([1, 2, 3], [2], 1, False, [2], []),
    "some gone, some left, some unseen": (
        [2, 3, 4, 5, 6],
        [1, 3, 9],
        2,
        False,
        [3],
        [9],
    ),
    "all read are settled, more may come": (
        [1, 2, 3, 4],
        [1, 2, 3, 4, 5],
        None,
        True,
        [1, 2, 3, 4],
        [],
    ),
    "settled one past the end of a short read": ([1, 2], [5], 1, False, [], []),
}


@pytest.mark.parametrize(
    ("found", "done", "head", "is_last", "deletable", "undeleted"), CASES.values(), ids=CASES.keys()
)
def test_head_is_judged_by_what_was_found_and_what_is_settled(
    found: list[int],
    done: list[int],
    head: int | None,
    is_last: bool,
    deletable: list[int],
    undeleted: list[int],
) -> None:
    judged = judge(documents(*found), done)
    assert judged.messages == (() if head is None else ({"_id": head},))
    assert judged.is_last is is_last
    assert judged.deletable == tuple(documents(*deletable))
    assert judged.undeleted == tuple(undeleted)


@pytest.mark.parametrize("done", [[], [1], [1, 2, 3]])
def test_limit_has_room_for_the_settled_those_to_deliver_and_one_more(done: list[int]) -> None:
    assert head_limit(done) == len(done) + 2
    assert head_limit(done, 5) == len(done) + 6


def test_what_was_redriven_ends_a_batch_before_it() -> None:
    found = [{"_id": 1}, {"_id": 2}, {"_id": 3, "redriven_from": 0}, {"_id": 4}]
    judged = judge(found, [], 4)
    assert judged.messages == ({"_id": 1}, {"_id": 2})
    assert not judged.is_last


def test_what_was_redriven_is_delivered_as_a_head() -> None:
    found = [{"_id": 3, "redriven_from": 0}, {"_id": 4}]
    assert judge(found, [], 4).messages == tuple(found)


@pytest.mark.parametrize("stored", range(7))
@pytest.mark.parametrize("done", [[], [2], [1, 2], [2, 5], [3, 4, 6]])
@pytest.mark.parametrize("batch", [1, 3])
def test_judgement_is_that_of_somebody_who_sees_the_whole_group(
    stored: int, done: list[int], batch: int
) -> None:
    """For every group that holds a range of messages, with any of them settled."""
    for first in range(1, 5):
        group = list(range(first, first + stored))
        judged = judge(documents(*group[: head_limit(done, batch)]), done, batch)
        live = [seq for seq in group if seq not in done]
        assert judged.messages == tuple(documents(*live[:batch]))
        assert judged.is_last == (len(live) <= batch)
        deletable = {document["_id"] for document in judged.deletable}
        assert set(group).intersection(done) <= {*deletable, *judged.undeleted}
        assert deletable <= set(group).intersection(done)


@pytest.mark.parametrize("stored", range(9))
@pytest.mark.parametrize("done", [[], [2], [1, 2], [2, 5], [3, 4, 6], [1, 2, 3, 4]])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("limit", range(1, 8))
def test_what_is_enough_is_judged_as_if_the_whole_group_were_seen(
    stored: int, done: list[int], batch: int, limit: int
) -> None:
    group = list(range(1, 1 + stored))
    seen = documents(*group[:limit])
    if not is_enough(seen, done, batch, limit):
        return
    judged = judge(seen, done, batch, limit)
    live = [seq for seq in group if seq not in done]
    assert judged.messages == tuple(documents(*live[:batch]))
    assert judged.is_last == (len(live) <= batch)
    deletable = {document["_id"] for document in judged.deletable}
    assert set(group).intersection(done) <= {*deletable, *judged.undeleted}
