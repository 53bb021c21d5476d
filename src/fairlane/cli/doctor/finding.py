"""What a check has found, and what to do about it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ("STATUSES", "Finding", "Status", "worst")

Status = Literal["ok", "warning", "error"]
STATUSES: tuple[Status, ...] = ("ok", "warning", "error")
"""From good to bad: their places are the exit statuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check.

    Attributes:
        check: what was looked at.
        detail: what is there.
        advice: what to do, unless all is well.
        data: the same for programs.
    """

    check: str
    status: Status
    detail: str
    advice: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


def worst(findings: Iterable[Finding]) -> Status:
    return max((each.status for each in findings), key=STATUSES.index, default="ok")
