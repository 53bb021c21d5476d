"""Decide what a claim found in its group, without I/O."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from fairlane.driver import Document

__all__ = ("Head", "head_limit", "is_enough", "judge")


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What stands at the front of a leased group.

    Attributes:
        messages: the documents to deliver, in order; none if the group has none.
        is_last: nothing stands behind them.
        deletable: documents of settled messages: an interrupted clean-up.
        undeleted: settled messages that may exist behind the part that was read.
    """

    messages: tuple[Document, ...]
    is_last: bool
    deletable: tuple[Document, ...]
    undeleted: tuple[int, ...]


def head_limit(done: Sequence[int], batch: int = 1) -> int:
    """Return how many documents to read: settled ones, those to deliver, and one for "more"."""
    return len(done) + batch + 1


def is_enough(documents: Sequence[Document], done: Sequence[int], batch: int, limit: int) -> bool:
    """Tell whether a group's first `limit` documents, or all it has, tell what is to be known."""
    live = sum(document["_id"] not in done for document in documents)
    return len(documents) < limit or live > batch


def judge(
    documents: Sequence[Document], done: Sequence[int], batch: int = 1, limit: int | None = None
) -> Head:
    """Judge a group's first documents, `limit` at most, in order of `_id`: `is_enough` of them.

    A settled message is gone for sure if it is not among them and they are all there are or reach
    past it. A late publish can still be inserted before one that was not seen.
    """
    seqs = [int(document["_id"]) for document in documents]
    is_complete = len(documents) < (head_limit(done, batch) if limit is None else limit)
    live = [document for document in documents if document["_id"] not in done]
    delivered = _batched(live[:batch])
    return Head(
        messages=delivered,
        is_last=len(live) == len(delivered),
        deletable=tuple(document for document in documents if document["_id"] in done),
        undeleted=tuple(
            seq for seq in done if seq not in seqs and not is_complete and seq > seqs[-1]
        ),
    )


def _batched(live: Sequence[Document]) -> tuple[Document, ...]:
    """Leave what was redriven for a lease of its own: its dead letter has to be looked at first."""
    plain = takewhile(lambda document: document.get("redriven_from") is None, live[1:])
    return (*live[:1], *plain)
