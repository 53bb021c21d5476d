"""How numbers and names read to a person. Pure."""

from collections.abc import Mapping

from fairlane.cli.demo.causes import Cause

__all__ = ("causes_in_words", "counted", "noun", "server_in_words")

REPAIRED = " (repaired planner)"
CAUSES: dict[Cause, str] = {"failure": "planned failures", "kill": "kill", "other": "other"}


def noun(number: int, singular: str, plural: str | None = None) -> str:
    return singular if number == 1 else plural or f"{singular}s"


def counted(number: int, singular: str, plural: str | None = None) -> str:
    return f"{number:,} {noun(number, singular, plural)}"


def server_in_words(name: str) -> str:
    """Leave out what only matters to whoever compares results; the JSON object keeps it."""
    return name.removesuffix(REPAIRED)


def causes_in_words(redelivered: Mapping[Cause, int], *, was_killed: bool) -> str:
    """Say why events were delivered again; `other` only if it happened."""
    shown = {"failure": True, "kill": was_killed, "other": redelivered["other"] > 0}
    return ", ".join(f"{CAUSES[cause]} {redelivered[cause]:,}" for cause in CAUSES if shown[cause])
