"""What a server says that a query cost it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pymongo.errors import OperationFailure

__all__ = ("Cost", "cost_of")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a query made the server do.

    Attributes:
        keys: index entries that it examined.
        documents: documents that it examined.
        milliseconds: whole ones, as the server counts them: mostly 0.
    """

    keys: int
    documents: int
    milliseconds: int

    @property
    def examined(self) -> int:
        return self.keys + self.documents


def cost_of(reply: Mapping[str, Any]) -> Cost | None:
    """Read the reply to an `explain`; None from a server that does not count.

    Raises `OperationFailure` if the query failed: MongoDB explains that too, where it was the
    time limit that ended it, and the counts are those of half a query.
    """
    stats = reply.get("executionStats", {})
    if stats.get("executionSuccess") is False:
        raise OperationFailure(str(stats.get("errorMessage", "failed")), stats.get("errorCode"))
    try:
        return Cost(
            keys=int(stats["totalKeysExamined"]),
            documents=int(stats["totalDocsExamined"]),
            milliseconds=int(stats["executionTimeMillis"]),
        )
    except KeyError:
        return None
