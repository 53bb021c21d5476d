"""The types of jobs, and what their handlers do at each attempt."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from fairlane.cli.demo.handling import DeliberateFailure
from fairlane.cli.demo.records import Outcome
from fairlane.retry import Discard, Fail, Retry

__all__ = ("KINDS", "Kind")

Answer = Callable[[int], Exception | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A type of jobs.

    Attributes:
        ends: the state in which its jobs end.
        closes: how a handler ends that ends the job.
        answer: what the handler raises at an attempt; None for nothing.
        pause: seconds for which the handler works.
        max_attempts: enough for a few kills, but where a job is to use them up.
        uses_all: whether it takes all attempts to end a job.
        max_concurrency: as of a type.
        is_blocking: whether the handler is a plain function, which runs in a thread.
    """

    name: str
    ends: Literal["done", "failed"] = "done"
    closes: Outcome = "handled"
    answer: Answer = lambda attempt: None
    pause: float = 0.002
    max_attempts: int = 5
    uses_all: bool = False
    max_concurrency: int | None = None
    is_blocking: bool = False


def _fails(attempt: int) -> Exception:
    return DeliberateFailure(f"attempt {attempt} fails by plan")


def _fails_first(attempt: int) -> Exception | None:
    return _fails(attempt) if attempt == 1 else None


def _retries_first(attempt: int) -> Exception | None:
    return Retry(0.1) if attempt == 1 else None


_ALL = (
    Kind(name="quick"),
    Kind(name="slow", pause=0.3, max_concurrency=8),
    Kind(name="thread", pause=0.05, is_blocking=True),
    Kind(name="flaky", answer=_fails_first),
    Kind(name="again", answer=_retries_first),
    Kind(
        name="broken", ends="failed", closes="failed", answer=_fails, max_attempts=3, uses_all=True
    ),
    Kind(name="refused", ends="failed", closes="failed", answer=lambda _: Fail("refused by plan")),
    Kind(name="dropped", closes="failed", answer=lambda _: Discard("dropped by plan")),
)

KINDS: dict[str, Kind] = {kind.name: kind for kind in _ALL}
