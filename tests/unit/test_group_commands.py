"""What is written about a group, as data."""

from typing import Any

import pytest
from bson.int64 import Int64

from fairlane import schema
from fairlane.checks import PRIORITIES
from fairlane.lease import commands
from fairlane.transport import _group_commands as group_commands

CLAIM_INDEX = [key for key, _ in schema.LOCK_INDEXES[0].document["key"].items()]


@pytest.mark.parametrize("floor", PRIORITIES)
def test_claimable_lists_every_priority_from_the_floor_up(floor: int) -> None:
    match = group_commands.claimable(partition=3, min_priority=floor, now=5.0)
    assert match["priority"] == {"$in": list(range(floor, 5))}
    assert match["partition"] == 3


@pytest.mark.parametrize("order", ["fair", "priority"])
def test_claim_fits_its_index_as_equality_sort_range(order: commands.Order) -> None:
    """Equalities (`$in` counts as one) come first, then the sort, and the range stands last."""
    match = group_commands.claimable(partition=0, min_priority=0, now=5.0)
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


SETTLED = group_commands.settled(now=5.0, partition=3, done=[3, 7])
WAYS_OUT: dict[str, dict[str, Any]] = {
    "settled": SETTLED,
    "dead": group_commands.settled(now=5.0, partition=3, done=[1], dead={"seq": 1}),
    "parked": group_commands.parked(at=9.0, seq=3, attempt=2, error=None),
    "failed": group_commands.parked(at=9.0, seq=3, attempt=2, error="why"),
    "given back": commands.given_back(now=5.0),
    "interrupted": group_commands.interrupted(at=5.0, seq=3),
    "settled and interrupted": group_commands.settled(
        now=5.0, partition=3, done=[3], interrupted=7
    ),
}


@pytest.mark.parametrize("update", WAYS_OUT.values(), ids=WAYS_OUT.keys())
def test_every_way_out_clears_the_token(update: dict[str, Any]) -> None:
    assert update["$set"]["token"] is None


@pytest.mark.parametrize("update", WAYS_OUT.values(), ids=WAYS_OUT.keys())
def test_no_way_out_changes_version_or_priority(update: dict[str, Any]) -> None:
    changed = {field for fields in update.values() for field in fields}
    assert changed.isdisjoint({"version", "priority", "_id", "epoch"})


def test_settled_resets_the_attempts_and_keeps_what_is_done() -> None:
    values = SETTLED["$set"]
    assert (values["token"], values["available_at"], values["attempts"]) == (None, 5.0, 0)
    assert values["done"] == [3, 7]
    assert all(isinstance(seq, Int64) for seq in values["done"])


def test_settled_puts_the_group_where_it_belongs_by_now() -> None:
    """The number of partitions may have changed since the group's life began."""
    assert SETTLED["$set"]["partition"] == 3


def test_settled_notes_what_a_dead_letter_needs() -> None:
    assert WAYS_OUT["dead"]["$set"]["dead"] == {"seq": 1}


@pytest.mark.parametrize("field", ["last_error", "head", "is_new", "interrupted"])
def test_settled_forgets_what_was_the_message_s(field: str) -> None:
    assert field in SETTLED["$unset"]


def test_settled_in_part_counts_the_interruption_of_the_next_message() -> None:
    update = WAYS_OUT["settled and interrupted"]
    assert (update["$set"]["head"], update["$set"]["interrupted"]) == (7, 1)
    assert set(update["$unset"]) == {"last_error", "is_new"}


def test_interrupted_takes_the_attempt_back_and_says_whose_it_was() -> None:
    update = WAYS_OUT["interrupted"]
    assert update["$set"] == {"token": None, "available_at": 5.0, "head": 3}
    assert update["$inc"] == {"attempts": -1, "interrupted": 1}


def test_parked_behind_settled_ones_has_not_been_interrupted() -> None:
    update = group_commands.parked(at=9.0, seq=3, attempt=1, error=None, done=[2])
    assert "interrupted" in update["$unset"]
    assert "interrupted" not in WAYS_OUT["parked"]["$unset"]


def test_parked_keeps_the_attempts() -> None:
    update = group_commands.parked(at=9.0, seq=3, attempt=2, error="why")
    assert update["$set"] == {
        "token": None,
        "available_at": 9.0,
        "attempts": 2,
        "head": 3,
        "last_error": "why",
    }
    assert "$inc" not in update


def test_parked_without_an_error_keeps_the_earlier_one() -> None:
    assert "last_error" not in WAYS_OUT["parked"]["$set"]


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
    "interruptions of this head": (
        {"epoch": 9, "attempts": 1, "head": 7, "interrupted": 2},
        None,
        {},
    ),
    "interruptions of another head": (
        {"epoch": 9, "attempts": 1, "head": 8, "interrupted": 2},
        None,
        {"head": 7, "attempts": 1, "interrupted": 0},
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
    assert group_commands.corrections(group, seq=7, floor=floor) == wrong


def test_drained_matches_only_the_lock_as_the_settlement_left_it() -> None:
    match = group_commands.drained("g", version=4, epoch=7, done=(1, 2))
    assert match == {"_id": "g", "token": None, "version": 4, "epoch": 7, "done": [1, 2]}


def test_abandoned_matches_only_the_lock_as_the_claim_read_it() -> None:
    match = group_commands.abandoned("g", "w:1", version=4)
    assert match == {"_id": "g", "token": "w:1", "version": 4}


def readied(**changes: Any) -> dict[str, Any]:
    defaults = {"seq": 5, "messages": 1, "priority": 2, "partition": 1, "available_at": 4.0}
    return group_commands.readied("g", **{**defaults, **changes})


def test_readied_leaves_a_group_that_exists_where_it_is() -> None:
    update = readied()
    assert set(update) == {"$inc", "$setOnInsert"}
    assert set(update["$inc"]) == {"version"}


def test_readied_counts_every_message_in_the_version() -> None:
    assert readied(messages=3)["$inc"]["version"] == 3


def test_readied_begins_a_life_that_nobody_holds() -> None:
    life = readied()["$setOnInsert"]
    assert (life["token"], life["attempts"], life["done"]) == (None, 0, [])
    assert (life["available_at"], life["priority"], life["partition"]) == (4.0, 2, 1)


def test_readied_names_the_floor_that_the_first_lease_must_look_at() -> None:
    assert readied()["$setOnInsert"]["is_new"] == schema.floor_id("g")


def test_epochs_of_a_later_life_are_above_those_of_an_earlier_one() -> None:
    first, second = (readied(seq=seq)["$setOnInsert"]["epoch"] for seq in (5, 6))
    assert second - first >= schema.EPOCH_STEP
    assert isinstance(first, Int64)


def test_adopted_keeps_a_version_that_a_publish_counted_meanwhile() -> None:
    update = group_commands.adopted({"_id": "g"})
    assert update["$max"] == {"priority": 0, "version": 0, "attempts": 0}
    assert "version" not in update["$set"]


@pytest.mark.parametrize(
    ("lock", "is_set"), [({}, True), ({"done": None}, True), ({"done": [1]}, False)]
)
def test_adopted_keeps_what_is_done(lock: dict[str, Any], is_set: bool) -> None:
    assert ("done" in group_commands.adopted({"_id": "g", **lock})["$set"]) == is_set
