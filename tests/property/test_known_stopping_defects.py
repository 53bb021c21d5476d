"""Defects that stopped groups might have: exploration must find each of them."""

from typing import Any

import pytest

from fairlane import schema
from fairlane.transport import _group_commands, _settle
from fairlane.transport._stopping import Stops
from property.explorer import explore
from property.small_scenes import LARGE, SCENES
from property.spoiling import spoil, without

pytestmark = pytest.mark.usefixtures("silence")


async def expect_found(scene: str, violation: str) -> None:
    with pytest.raises(AssertionError, match=violation):
        await explore((SCENES | LARGE)[scene], faults=0)


async def test_death_that_removes_the_lock_with_nothing_behind_it_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_settle, "_followed", lambda lease: lease)
    await expect_found("stopping_death_and_publish", "I2 1 delivered, though 0 stops its group")


async def test_death_that_does_not_stop_at_once_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop_later(update: Any) -> Any:
        update["$set"]["available_at"] = 0.0
        return update

    spoil(monkeypatch, _group_commands.settled, stop_later)
    await expect_found("stopping_death_and_work", "I2 1 delivered, though 0 stops its group")


async def test_redrive_that_frees_whatever_stops_the_group_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spoil(monkeypatch, _group_commands.stopped_by, without("stopped"))
    await expect_found(
        "redrive_completed_twice_and_death_in_between",
        "I3 0 delivered while 0 is leased|I2 1 delivered, though 0 stops its group",
    )


async def test_redrive_to_the_end_of_a_stopped_group_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(schema, "FRONT", 0)
    await expect_found(
        "redrive_of_a_stopped_group_and_work", "I2 1 delivered, though 0 stops its group"
    )


async def test_redrive_that_frees_the_group_first_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def free_and_tell(self: Stops, letter: Any) -> bool:
        await self.end(letter)
        return True

    monkeypatch.setattr(Stops, "is_stopping", free_and_tell)
    await expect_found(
        "redrive_of_a_stopped_group_and_work", "I2 1 delivered, though 0 stops its group"
    )


async def test_redrive_that_never_frees_its_group_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def do_nothing(self: Stops, letter: Any) -> None:
        pass

    monkeypatch.setattr(Stops, "end", do_nothing)
    await expect_found("redrive_of_a_stopped_group_and_work", "I4 .* stopped for ever")
