"""Every write of a lease, as data."""

import math
from typing import Any

import pytest
from bson.int64 import Int64

from fairlane import schema
from fairlane.checks import PRIORITIES
from fairlane.lease import commands

CLAIM_INDEX = [key for key, _ in schema.LOCK_INDEXES[0].document["key"].items()]


@pytest.mark.parametrize("floor", PRIORITIES)
def test_due_lists_every_priority_from_the_floor_up(floor: int) -> None:
    match = commands.due(partition=0, min_priority=floor, now=5.0)
    assert match["priority"] == {"$in": list(range(floor, 5))}


def test_due_includes_the_moment_itself() -> None:
    match = commands.due(partition=3, min_priority=0, now=5.0)
    assert match["available_at"] == {"$lte": 5.0}
    assert match["partition"] == 3


@pytest.mark.parametrize("order", ["fair", "priority"])
def test_claim_fits_its_index_as_equality_sort_range(order: commands.Order) -> None:
    """Equalities (`$in` counts as one) come first, then the sort, and the range stands last."""
    match = commands.due(partition=0, min_priority=0, now=5.0)
    equal = [key for key, value in match.items() if not isinstance(value, dict) or "$in" in value]
    ranges = [key for key in match if key not in equal]
    sort = [key for key, _ in commands.order_by(order) if key not in equal]
    assert CLAIM_INDEX[: len(equal)] == equal
    assert CLAIM_INDEX[len(equal) :] == sort == ranges


@pytest.mark.parametrize("order", ["fair", "priority"])
def test_sort_of_a_claim_runs_in_the_direction_of_its_index(order: commands.Order) -> None:
    directions = dict(schema.LOCK_INDEXES[0].document["key"].items())
    assert all(directions[key] == direction for key, direction in commands.order_by(order))


def test_head_read_is_served_by_its_index() -> None:
    assert list(schema.MESSAGE_INDEXES[0].document["key"].items()) == [("group_id", 1), ("_id", 1)]


def test_claimed_counts_the_attempt_and_the_epoch_in_the_claim_itself() -> None:
    update = commands.claimed(token="w:1", until=35.0)
    assert update["$set"] == {"token": "w:1", "available_at": 35.0}
    assert update["$inc"] == {"attempts": 1, "epoch": 1}
    assert isinstance(update["$inc"]["epoch"], Int64)


def test_held_carries_the_token() -> None:
    assert commands.held("g", "w:1") == {"_id": "g", "token": "w:1"}


WAYS_OUT: dict[str, dict[str, Any]] = {
    "settled": commands.settled(now=5.0, done=[1]),
    "dead": commands.settled(now=5.0, done=[1], dead={"seq": 1}),
    "parked": commands.parked(at=9.0, seq=3, attempt=2, error=None),
    "failed": commands.parked(at=9.0, seq=3, attempt=2, error="why"),
    "given back": commands.given_back(now=5.0),
}


@pytest.mark.parametrize("update", WAYS_OUT.values(), ids=WAYS_OUT.keys())
def test_every_way_out_clears_the_token(update: dict[str, Any]) -> None:
    assert update["$set"]["token"] is None


@pytest.mark.parametrize("update", WAYS_OUT.values(), ids=WAYS_OUT.keys())
def test_no_way_out_changes_version_or_priority(update: dict[str, Any]) -> None:
    changed = {field for fields in update.values() for field in fields}
    assert changed.isdisjoint({"version", "priority", "partition", "_id", "epoch"})


def test_settled_resets_the_attempts_and_keeps_what_is_done() -> None:
    values = commands.settled(now=5.0, done=[3, 7])["$set"]
    assert values == {"token": None, "available_at": 5.0, "attempts": 0, "done": [3, 7]}
    assert all(isinstance(seq, Int64) for seq in values["done"])


def test_settled_notes_what_a_dead_letter_needs() -> None:
    values = commands.settled(now=5.0, done=[3], dead={"seq": 3, "reason": "why"})["$set"]
    assert values["dead"] == {"seq": 3, "reason": "why"}


@pytest.mark.parametrize("field", ["last_error", "head", "is_new"])
def test_settled_forgets_what_was_the_message_s(field: str) -> None:
    assert field in commands.settled(now=5.0, done=[1])["$unset"]


def test_parked_keeps_the_attempts() -> None:
    update = commands.parked(at=9.0, seq=3, attempt=2, error="why")
    assert update["$set"] == {
        "token": None,
        "available_at": 9.0,
        "attempts": 2,
        "head": 3,
        "last_error": "why",
    }
    assert "$inc" not in update


def test_parked_without_an_error_keeps_the_earlier_one() -> None:
    assert "last_error" not in commands.parked(at=9.0, seq=3, attempt=2, error=None)["$set"]


def test_given_back_takes_the_attempt_off_again() -> None:
    assert commands.given_back(now=5.0)["$inc"] == {"attempts": -1}


def test_extended_moves_the_time_forward_and_changes_nothing_else() -> None:
    assert commands.extended(until=9.0) == {"$max": {"available_at": 9.0}}


CORRECTIONS: dict[str, tuple[dict[str, Any], int | None, dict[str, Any]]] = {
    # name: lock, floor, what is wrong if message 7 is the head
    "first attempt": ({"epoch": 9, "attempts": 1}, None, {}),
    "above the floor": ({"epoch": 9, "attempts": 1}, 8, {}),
    "on the floor": ({"epoch": 9, "attempts": 1}, 9, {"epoch": 10}),
    "below the floor": ({"epoch": 9, "attempts": 1}, 20, {"epoch": 21}),
    "second attempt of nobody knows whom": ({"epoch": 9, "attempts": 2}, None, {"head": 7}),
    "attempts of this head": ({"epoch": 9, "attempts": 5, "head": 7}, None, {}),
    "attempts of another head": (
        {"epoch": 9, "attempts": 5, "head": 8},
        None,
        {"head": 7, "attempts": 1},
    ),
    "all at once": (
        {"epoch": 9, "attempts": 5, "head": 8},
        9,
        {"epoch": 10, "head": 7, "attempts": 1},
    ),
}


@pytest.mark.parametrize(("group", "floor", "wrong"), CORRECTIONS.values(), ids=CORRECTIONS.keys())
def test_corrections_are_what_is_wrong_in_the_lock(
    group: dict[str, Any], floor: int | None, wrong: dict[str, Any]
) -> None:
    assert commands.corrections(group, seq=7, floor=floor) == wrong


def test_drained_matches_only_the_lock_as_the_settlement_left_it() -> None:
    match = commands.drained("g", version=4, epoch=7, done=(1, 2))
    assert match == {"_id": "g", "token": None, "version": 4, "epoch": 7, "done": [1, 2]}


def test_abandoned_matches_only_the_lock_as_the_claim_read_it() -> None:
    match = commands.abandoned("g", "w:1", version=4)
    assert match == {"_id": "g", "token": "w:1", "version": 4}


def readied(**changes: Any) -> dict[str, Any]:
    defaults = {"seq": 5, "messages": 1, "priority": 2, "partition": 0, "available_at": 4.0}
    return commands.readied(**{**defaults, **changes})


def test_readied_leaves_a_group_that_exists_where_it_is() -> None:
    update = readied()
    assert set(update) == {"$inc", "$setOnInsert"}
    assert set(update["$inc"]) == {"version"}


def test_readied_counts_every_message_in_the_version() -> None:
    assert readied(messages=3)["$inc"]["version"] == 3


def test_readied_begins_a_life_that_nobody_holds() -> None:
    life = readied()["$setOnInsert"]
    assert (life["token"], life["attempts"], life["done"]) == (None, 0, [])
    assert (life["available_at"], life["priority"], life["partition"]) == (4.0, 2, 0)


def test_epochs_of_a_later_life_are_above_those_of_an_earlier_one() -> None:
    first, second = (readied(seq=seq)["$setOnInsert"]["epoch"] for seq in (5, 6))
    assert second - first >= schema.EPOCH_STEP
    assert isinstance(first, Int64)


def test_times_of_a_command_are_what_it_was_told() -> None:
    assert commands.claimed(token="w:1", until=math.pi)["$set"]["available_at"] == math.pi
