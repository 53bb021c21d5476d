"""A verb that fails again and again, by errors of which no background loop may die."""

from itertools import pairwise
from typing import Any

from pymongo.errors import CursorNotFound, DuplicateKeyError, NotPrimaryError, OperationFailure

from unit.worker_fakes import now

__all__ = ("ERRORS", "TRIES", "Failing")

TRIES = 25
ERRORS: dict[str, Exception] = {
    "WriteConflict": OperationFailure("WriteConflict", 112),
    "E11000": DuplicateKeyError("E11000 duplicate key error", 11000),
    "NotPrimary": NotPrimaryError("not primary", {"code": 10107}),
    "CursorNotFound": CursorNotFound("cursor id 1 not found", 43),
}


class Failing:
    """Stands before one verb of a source, which then fails `TRIES` times.

    Attributes:
        called_at: when it was called, from the first failure to the first success.
    """

    def __init__(self, source: Any, verb: str, error: Exception) -> None:
        self.called_at: list[float] = []
        self._call = getattr(source, verb)
        self._error = error
        setattr(source, verb, self)

    async def __call__(self, *args: Any, **options: Any) -> Any:
        if not self.is_over:
            self.called_at.append(now())
        if not self.is_over:
            raise self._error
        return await self._call(*args, **options)

    @property
    def is_over(self) -> bool:
        return len(self.called_at) > TRIES

    @property
    def pauses(self) -> list[float]:
        return [later - earlier for earlier, later in pairwise(self.called_at)]
