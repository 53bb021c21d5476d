"""Every write of a lease, as data: whatever it is that is leased."""

import math
from typing import Any

import pytest
from bson.int64 import Int64

from fairlane.lease import commands

AMONG = {"kind": ("a", "b"), "level": range(3)}


def test_due_includes_the_moment_itself() -> None:
    match = commands.due(partitions=[3], now=5.0, among={})
    assert match == {"partition": 3, "available_at": {"$lte": 5.0}}


def test_due_lists_the_values_of_other_fields() -> None:
    match = commands.due(partitions=[0], now=5.0, among=AMONG)
    assert match["kind"] == {"$in": ["a", "b"]}
    assert match["level"] == {"$in": [0, 1, 2]}


def test_due_has_its_fields_in_the_order_of_an_index() -> None:
    match = commands.due(partitions=[0], now=5.0, among=AMONG)
    assert list(match) == ["partition", "kind", "level", "available_at"]


def test_due_asks_for_one_exact_partition() -> None:
    assert commands.due(partitions=[7], now=5.0, among={})["partition"] == 7


@pytest.mark.parametrize(("order", "fields"), [("fair", 1), ("priority", 2)])
def test_sort_of_a_claim_ends_with_the_waiting_time(order: commands.Order, fields: int) -> None:
    sort = commands.order_by(order)
    assert len(sort) == fields
    assert sort[-1] == ("available_at", 1)


def test_claimed_counts_the_attempt_and_the_epoch_in_the_claim_itself() -> None:
    update = commands.claimed(token="w:1", until=35.0)
    assert update["$set"] == {"token": "w:1", "available_at": 35.0}
    assert update["$inc"] == {"attempts": 1, "epoch": 1}
    assert isinstance(update["$inc"]["epoch"], Int64)


def test_held_carries_the_token() -> None:
    assert commands.held("g", "w:1") == {"_id": "g", "token": "w:1"}


def test_taken_is_known_by_its_token_alone() -> None:
    assert commands.taken("w:1") == {"token": "w:1"}


@pytest.mark.parametrize("update", [commands.freed(at=5.0), commands.given_back(now=5.0)])
def test_every_way_out_clears_the_token_and_sets_the_time(update: dict[str, Any]) -> None:
    assert update["$set"] == {"token": None, "available_at": 5.0}


def test_freed_keeps_the_attempt() -> None:
    assert set(commands.freed(at=5.0)) == {"$set"}


def test_given_back_takes_the_attempt_off_again() -> None:
    assert commands.given_back(now=5.0)["$inc"] == {"attempts": -1}


def test_extended_moves_the_time_forward_and_changes_nothing_else() -> None:
    assert commands.extended(until=9.0) == {"$max": {"available_at": 9.0}}


def test_times_of_a_command_are_what_it_was_told() -> None:
    assert commands.claimed(token="w:1", until=math.pi)["$set"]["available_at"] == math.pi


UPDATES = {
    "claimed": commands.claimed(token="$$NOW", until=1.0),
    "freed": commands.freed(at=1.0),
    "given back": commands.given_back(now=1.0),
    "extended": commands.extended(until=1.0),
}


@pytest.mark.parametrize("update", UPDATES.values(), ids=UPDATES.keys())
def test_no_update_is_a_pipeline_in_which_values_would_be_evaluated(update: Any) -> None:
    assert isinstance(update, dict)
    assert all(name in {"$set", "$inc", "$max"} for name in update)


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_misplaced_is_exactly_what_no_partition_of_a_claim_matches(partitions: int) -> None:
    claimed = [
        commands.due(partitions=[each], now=1.0, among={})["partition"]
        for each in range(partitions)
    ]
    assert commands.misplaced(partitions) == {"partition": {"$nin": claimed}}
