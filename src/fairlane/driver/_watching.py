"""Read the changes of a database as they happen, batch by batch, over a client of its own.

A stream waits at the server for nearly all of the time. Over the application's client it would keep
one of its connections, and one of Motor's threads, from everybody else; and what waits there cannot
be given up when the connection has died silently. The commands are sent as MongoDB documents them,
since the drivers' own streams do not show where a batch ends.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import anyio
from pymongo.read_preferences import ReadPreference

from fairlane.driver._bson import BSON, Document
from fairlane.driver._cancelling import guarded

__all__ = ("UNHURRIED", "ChangeStream", "Changes", "OpenStream", "Stream")

CLOSING_SECONDS = 1.0

UNHURRIED = {"socketTimeoutMS": None, "timeoutMS": None}
"""Options of its client: limits that suit other commands would end each wait for changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What one command has brought.

    Attributes:
        documents: the changes, in order.
        token: where a stream goes on after them; None if the server does not say.
        is_over: whether the stream ends here, because its database was dropped.
    """

    documents: Sequence[Document]
    token: Document | None
    is_over: bool


class ChangeStream(Protocol):
    async def open(self, pipeline: Sequence[Document], after: Document | None) -> Changes:
        """Begin with what happens from now on, or after the change with this token."""
        ...

    async def more(self, seconds: float) -> Changes:
        """Wait at the server for the next changes, for so long at most; there may be none."""
        ...

    async def close(self) -> None:
        """Give up whatever was waited for."""
        ...


OpenStream = Callable[[], ChangeStream]
"""Makes a stream in the event loop that calls it; nothing is sent before it is opened."""


class Stream:
    def __init__(self, client: Any, db_name: str) -> None:
        self._client = client
        self._database = client.get_database(db_name)
        self._session = client.start_session(causal_consistency=False)
        self._cursor: int = 0

    async def open(self, pipeline: Sequence[Document], after: Document | None) -> Changes:
        start = {} if after is None else {"resumeAfter": after}
        stages = [{"$changeStream": start}, *pipeline]
        return await self._send({"aggregate": 1, "pipeline": stages, "cursor": {}}, "firstBatch")

    async def more(self, seconds: float) -> Changes:
        wait = max(1, round(seconds * 1_000))
        following = {"getMore": self._cursor, "collection": "$cmd.aggregate", "maxTimeMS": wait}
        return await self._send(following, "nextBatch")

    async def close(self) -> None:
        with anyio.move_on_after(CLOSING_SECONDS, shield=True):
            await guarded("pymongo", self._session.end_session())
            await guarded("pymongo", self._client.close())

    async def _send(self, command: Document, batch: str) -> Changes:
        call = self._database.command(
            command,
            session=self._session,
            read_preference=ReadPreference.PRIMARY,
            codec_options=BSON,
        )
        cursor = (await guarded("pymongo", call))["cursor"]
        self._cursor, documents = cursor["id"], cursor[batch]
        token = cursor.get("postBatchResumeToken")
        if token is None and documents:  # before MongoDB 4.0.7
            token = documents[-1]["_id"]
        return Changes(documents=documents, token=token, is_over=not self._cursor)
