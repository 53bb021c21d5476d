"""Publish: reserve numbers, insert the messages, make their groups claimable."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pymongo.errors import DuplicateKeyError

from fairlane import checks, schema
from fairlane.driver import Insert, Upsert
from fairlane.errors import ConfigurationError, Duplicate
from fairlane.payload import Payload
from fairlane.shield import finish
from fairlane.transport._store import Store

__all__ = ("Draft", "Publisher")

E = TypeVar("E")

TRIES = 3

CHUNK = 500
"""Messages that are written, and made claimable, before the next ones: finished in a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A message that passed every check and has no number yet."""

    group_id: str
    event: Any
    priority: int
    message_id: str | None = None


class Publisher(Generic[E]):
    def __init__(self, store: Store, payload: Payload[E], *, new_group_credit: float) -> None:
        self._store = store
        self._payload = payload
        self._credit = new_group_credit

    def draft(
        self, group_id: object, event: E, priority: object = 0, message_id: object = None
    ) -> Draft:
        """Check one message; nothing is written."""
        group = checks.group_id(group_id)
        name = checks.optional_text("message_id", message_id)
        return Draft(
            group_id=group,
            event=self._payload.encode(event, group_id=group, message_id=name),
            priority=checks.priority("priority", priority),
            message_id=name,
        )

    def drafts(self, items: Iterable[tuple[Any, ...]]) -> list[Draft]:
        return [self._item(index, item) for index, item in enumerate(items)]

    async def publish(self, drafts: Sequence[Draft]) -> list[int]:
        """Store the drafts in order and return their numbers.

        From the insert on a chunk is finished even if the call is cancelled: a message without a
        lock would wait for `repair()`.
        """
        stored: list[int] = []
        for start in range(0, len(drafts), CHUNK):
            stored += await self._publish_chunk(drafts[start : start + CHUNK])
        return stored

    async def _publish_chunk(self, drafts: Sequence[Draft]) -> list[int]:
        """Race: `repair()` looks no more at numbers older than a minute, so they must be young."""
        first = await self._store.reserve(len(drafts))
        seqs = list(range(first, first + len(drafts)))
        return await finish(self._write(drafts, seqs, await self._store.now()))

    def _item(self, index: int, item: tuple[Any, ...]) -> Draft:
        if not isinstance(item, tuple) or len(item) not in (2, 3):
            raise ConfigurationError(
                f"items[{index}] must be (group_id, event) or (group_id, event, priority), "
                f"not {item!r:.100}"
            )
        return self.draft(*item)

    async def _write(self, drafts: Sequence[Draft], seqs: list[int], now: float) -> list[int]:
        messages = [self._insert(draft, seq, now) for draft, seq in zip(drafts, seqs, strict=True)]
        locks = self._ready(drafts, seqs, now)
        for _ in range(TRIES - 1):
            try:
                await self._store.driver.write_in_order([*messages, *locks])
            except DuplicateKeyError:
                if (earlier := await self._earlier(drafts[0])) is None:
                    continue  # settled meanwhile: its message_id is free again
                await self._store.driver.write_in_order(locks)
                return [earlier]
            return seqs
        await self._store.driver.write_in_order([*messages, *locks])
        return seqs

    def _insert(self, draft: Draft, seq: int, now: float) -> Insert:
        message = schema.message(
            seq=seq,
            group_id=draft.group_id,
            event=draft.event,
            priority=draft.priority,
            published_at=now,
            message_id=draft.message_id,
        )
        return self._store.insertion(message)

    def _ready(self, drafts: Sequence[Draft], seqs: Sequence[int], now: float) -> list[Upsert]:
        """Return one upsert for each group; its first draft fixes the priority."""
        groups: dict[str, list[tuple[Draft, int]]] = {}
        for draft, seq in zip(drafts, seqs, strict=True):
            groups.setdefault(draft.group_id, []).append((draft, seq))
        return [
            self._store.readying(
                group_id,
                seq=members[0][1],
                messages=len(members),
                priority=members[0][0].priority,
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
