"""How `fairlane demo` words numbers and names."""

from collections import Counter

import pytest

from fairlane.cli.demo.causes import Cause
from fairlane.cli.demo.wording import causes_in_words, counted, server_in_words
from fairlane.testing._programs import secantus
from fairlane.testing._secantus_version import SECANTUS_VERSION


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 processes"), (1, "1 process"), (2_000, "2,000 processes")]
)
def test_only_one_is_singular(number: int, words: str) -> None:
    assert counted(number, "process", "processes") == words


def test_a_plural_has_an_s_unless_told_otherwise() -> None:
    assert counted(2, "event") == "2 events"


def test_people_are_not_told_how_the_local_server_was_repaired() -> None:
    name = secantus(plain=False, sync_on_commit=False).name
    assert server_in_words(name) == f"SecantusDB {SECANTUS_VERSION}"


def test_people_are_told_what_another_server_says() -> None:
    assert server_in_words("h:1 (says version 8.0)") == "h:1 (says version 8.0)"


@pytest.mark.parametrize(
    ("found", "was_killed", "words"),
    [
        (Counter(failure=12, kill=3), True, "planned failures 12, kill 3"),
        (Counter(failure=12), False, "planned failures 12"),
        (Counter(other=1), True, "planned failures 0, kill 0, other 1"),
    ],
)
def test_the_kill_is_a_cause_only_if_there_was_one(
    found: Counter[Cause], was_killed: bool, words: str
) -> None:
    assert causes_in_words(found, was_killed=was_killed) == words
