"""Publish: reserve numbers, insert the messages, make their groups claimable."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pymongo.errors import DuplicateKeyError, OperationFailure

from fairlane import checks, schema
from fairlane.driver import Insert, Upsert, Write
from fairlane.errors import ConfigurationError, Duplicate
from fairlane.flushing import Flushes
from fairlane.payload import Payload
from fairlane.shield import finish
from fairlane.transport._store import Store

__all__ = ("Draft", "Publisher")

E = TypeVar("E")

TRIES = 3

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
        told: list[int | Exception] = [row.seq for row in rows]
        at: int | None = 0
        while at is not None:
            at = await self._write_from(at, rows, told, now)
            if is_one_call and at and isinstance(told[at - 1], Exception):
                del rows[at:], told[at:]
        return told

    async def _write_from(
        self, start: int, rows: Sequence[Row], told: list[int | Exception], now: float
    ) -> int | None:
        """Write what comes from `start` on; return where to go on behind what was refused."""
        inserts = [self._insert(row, now) for row in rows[start:]]
        stored = [row for row, each in zip(rows, told, strict=True) if isinstance(each, int)]
        writes: list[Write] = [*inserts, *self._ready(stored, now)]
        refusal = await self._store.driver.write_until_refused(writes)
        if refusal is None:
            return None
        if refusal.place >= len(inserts):
            raise refusal.error
        at = start + refusal.place
        told[at] = await self._repeated(rows[at], refusal.error, now)
        return at + 1

    async def _repeated(self, row: Row, error: OperationFailure, now: float) -> int | Exception:
        """Return the number of the message that this one repeats, or why it cannot be stored."""
        for _ in range(TRIES):
            if not isinstance(error, DuplicateKeyError):
                break
            try:
                if (earlier := await self._earlier(row.draft)) is not None:
                    return earlier
                # Settled meanwhile: its message_id is free again.
                await self._store.driver.write_in_order([self._insert(row, now)])
            except (Duplicate, OperationFailure) as another:
                if isinstance(another, Duplicate):
                    return another
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

    async def _earlier(self, draft: Draft) -> int | None:
        """Return the number of the stored message with this `message_id`.

        A repeated publish is the earlier one, made whole.
        """
        if draft.message_id is None:
            return None
        earlier = await self._store.messages.find_one(
            {"message_id": draft.message_id}, {"group_id": 1}
        )
        if earlier is None:
            return None
        if earlier["group_id"] != draft.group_id:
            raise Duplicate(
                f"message_id {draft.message_id!r} is in use by a message of group "
                f"{earlier['group_id']!r}"
            )
        return int(earlier["_id"])


def _number(told: int | Exception) -> int:
    if isinstance(told, Exception):
        raise told
    return told
