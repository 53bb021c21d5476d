"""Publish: reserve numbers, insert the messages, make their groups claimable."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pymongo.errors import DuplicateKeyError, OperationFailure

from fairlane import checks, schema
from fairlane.driver import Document, Insert, Upsert, Write
from fairlane.errors import ConfigurationError, Duplicate
from fairlane.flushing import Flushes
from fairlane.payload import Payload
from fairlane.shield import finish
from fairlane.transport._store import Store

__all__ = ("Draft", "Publisher")

E = TypeVar("E")

TRIES = 3

Told = dict[int, int | Exception]
"""What becomes of each message, by its number: the number that it is stored under, or why not."""

OF_REPEATS: Document = {"group_id": 1, "message_id": 1}

CHUNK = 500
"""Messages that are written, and made claimable, before the next ones: finished in a moment."""

CHUNK_BYTES = 16 * 1024 * 1024
"""Bytes of the events that concurrent publishes write together, unless one alone has more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A message that passed every check and has no number yet."""

    group_id: str
    event: Any
    size: int
    priority: int
    message_id: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A message and its number."""

    draft: Draft
    seq: int


class Publisher(Generic[E]):
    def __init__(self, store: Store, payload: Payload[E], *, new_group_credit: float) -> None:
        self._store = store
        self._payload = payload
        self._credit = new_group_credit
        self._flushes: Flushes[Draft, int] = Flushes(
            self._write, most=CHUNK, heaviest=CHUNK_BYTES, weigh=lambda draft: draft.size
        )

    def draft(
        self, group_id: object, event: E, priority: object = 0, message_id: object = None
    ) -> Draft:
        """Check one message; nothing is written."""
        group = checks.group_id(group_id)
        name = checks.optional_text("message_id", message_id)
        value, size = self._payload.encode(event, group_id=group, message_id=name)
        return Draft(
            group_id=group,
            event=value,
            size=size,
            priority=checks.priority("priority", priority),
            message_id=name,
        )

    def drafts(self, items: Iterable[tuple[Any, ...]]) -> list[Draft]:
        return [self._item(index, item) for index, item in enumerate(items)]

    async def publish(self, draft: Draft) -> int:
        """Store a draft, together with those that others publish now; return its number."""
        return await self._flushes.call(draft)

    async def publish_many(self, drafts: Sequence[Draft]) -> list[int]:
        """Store the drafts in order and return their numbers.

        A chunk is finished even if the call is cancelled: a message without a lock would wait for
        `repair()`.
        """
        stored: list[int] = []
        for start in range(0, len(drafts), CHUNK):
            told = await finish(self._write(drafts[start : start + CHUNK], is_one_call=True))
            stored += [_number(each) for each in told]
        return stored

    async def drain(self) -> None:
        """Wait until every publish that was called is done."""
        await self._flushes.drain()

    def _item(self, index: int, item: tuple[Any, ...]) -> Draft:
        if not isinstance(item, tuple) or len(item) not in (2, 3):
            raise ConfigurationError(
                f"items[{index}] must be (group_id, event) or (group_id, event, priority), "
                f"not {item!r:.100}"
            )
        return self.draft(*item)

    async def _write(
        self, drafts: Sequence[Draft], *, is_one_call: bool = False
    ) -> list[int | Exception]:
        """Store the drafts in order; return the number of each, or why it was refused.

        Of one call nothing is stored behind what is refused: it would overtake that.
        Race: `repair()` looks no more at numbers older than a minute, so they must be young.
        """
        first = await self._store.reserve(len(drafts))
        now = await self._store.now()
        rows = [Row(draft, seq) for seq, draft in enumerate(drafts, first)]
        told: Told = {row.seq: row.seq for row in rows}
        left: Sequence[Row] = rows
        while (refused := await self._write_rows(left, rows, told, now)) is not None:
            if is_one_call:
                rows, left = rows[: refused + 1], ()
            else:
                left = await self._without_repeats(left[refused + 1 :], told)
        return [told[row.seq] for row in rows]

    async def _write_rows(
        self, left: Sequence[Row], rows: Sequence[Row], told: Told, now: float
    ) -> int | None:
        """Write what is left, up to what is refused; return its place, or None if all is done."""
        inserts = [self._insert(row, now) for row in left]
        stored = [row for row in rows if isinstance(told[row.seq], int)]
        writes: list[Write] = [*inserts, *self._ready(stored, now)]
        refusal = await self._store.driver.write_until_refused(writes)
        if refusal is None:
            return None
        if refusal.place >= len(inserts):
            raise refusal.error
        row = left[refusal.place]
        told[row.seq] = await self._repeated(row, refusal.error, now)
        return refusal.place

    async def _without_repeats(self, rows: Sequence[Row], told: Told) -> Sequence[Row]:
        """Leave out what repeats a stored message: where there is one repeat there may be many."""
        names = [name for row in rows if (name := row.draft.message_id) is not None]
        if not names:
            return rows
        found = self._store.messages.each(
            {"message_id": {"$in": names}}, sort=[("_id", 1)], fields=OF_REPEATS
        )
        stored = {message["message_id"]: message async for message in found}
        for row in rows:
            if (message := stored.get(row.draft.message_id)) is not None:
                told[row.seq] = _repeats(row.draft, message)
        return [row for row in rows if row.draft.message_id not in stored]

    async def _repeated(self, row: Row, error: OperationFailure, now: float) -> int | Exception:
        """Return the number of the message that this one repeats, or why it cannot be stored."""
        for _ in range(TRIES):
            if not isinstance(error, DuplicateKeyError):
                break
            if (earlier := await self._earlier(row.draft)) is not None:
                return earlier
            try:  # settled meanwhile: its message_id is free again
                await self._store.driver.write_in_order([self._insert(row, now)])
            except OperationFailure as another:
                error = another
            else:
                return row.seq
        return error

    def _insert(self, row: Row, now: float) -> Insert:
        message = schema.message(
            seq=row.seq,
            group_id=row.draft.group_id,
            event=row.draft.event,
            priority=row.draft.priority,
            published_at=now,
            message_id=row.draft.message_id,
        )
        return self._store.insertion(message)

    def _ready(self, rows: Sequence[Row], now: float) -> list[Upsert]:
        """Return one upsert for each group; its first message fixes the priority."""
        groups: dict[str, list[Row]] = {}
        for row in rows:
            groups.setdefault(row.draft.group_id, []).append(row)
        return [
            self._store.readying(
                group_id,
                seq=members[0].seq,
                messages=len(members),
                priority=members[0].draft.priority,
                available_at=max(0.0, now - self._credit),
            )
            for group_id, members in groups.items()
        ]

    async def _earlier(self, draft: Draft) -> int | Duplicate | None:
        """Return the number of the stored message with this `message_id`.

        A repeated publish is the earlier one, made whole.
        """
        if draft.message_id is None:
            return None
        earlier = await self._store.messages.find_one({"message_id": draft.message_id}, OF_REPEATS)
        return None if earlier is None else _repeats(draft, earlier)


def _repeats(draft: Draft, stored: Document) -> int | Duplicate:
    """Return the number of the message that this one repeats; an error if it is of another group.

    Not raised: nobody else's message depends on it.
    """
    if stored["group_id"] == draft.group_id:
        return int(stored["_id"])
    return Duplicate(
        f"message_id {draft.message_id!r} is in use by a message of group {stored['group_id']!r}"
    )


def _number(told: int | Exception) -> int:
    if isinstance(told, Exception):
        raise told
    return told
