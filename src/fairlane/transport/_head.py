"""Decide what a claim found in its group, without I/O."""

from collections.abc import Sequence
from dataclasses import dataclass

from fairlane.driver import Document

__all__ = ("Head", "head_limit", "judge")


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What stands at the front of a leased group.

    Attributes:
        message: the document to deliver; None if the group has no messages.
        is_last: nothing stands behind it.
        deletable: documents of settled messages: an interrupted clean-up.
        undeleted: settled messages that may exist behind the part that was read.
    """

    message: Document | None
    is_last: bool
    deletable: tuple[Document, ...]
    undeleted: tuple[int, ...]


def head_limit(done: Sequence[int]) -> int:
    """Return how many documents to read: the settled ones, the head, and one that tells "more"."""
    return len(done) + 2


def judge(documents: Sequence[Document], done: Sequence[int]) -> Head:
    """Judge the group's first `head_limit(done)` documents, in order of `_id`.

    A settled message is gone for sure if it is not among them and they are all there are or reach
    past it. A late publish can still be inserted before one that was not seen.
    """
    seqs = [int(document["_id"]) for document in documents]
    is_complete = len(documents) < head_limit(done)
    live = [document for document in documents if document["_id"] not in done]
    return Head(
        message=live[0] if live else None,
        is_last=len(live) < 2,
        deletable=tuple(document for document in documents if document["_id"] in done),
        undeleted=tuple(
            seq for seq in done if seq not in seqs and not is_complete and seq > seqs[-1]
        ),
    )
