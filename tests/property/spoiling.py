"""Spoil a command of the product, to see that somebody notices."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

__all__ = ("Change", "Command", "spoil", "without")

Command = Callable[..., Any]
Change = Callable[[Any], Any]


def without(field: str) -> Change:
    def change(match: Any) -> Any:
        return {key: value for key, value in match.items() if key != field}

    return change


def spoil(patch: pytest.MonkeyPatch, command: Command, change: Change) -> None:
    home = sys.modules[command.__module__]
    patch.setattr(
        home, command.__name__, lambda *args, **options: change(command(*args, **options))
    )
