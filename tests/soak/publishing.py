"""The publishers of a soak: each group by one of them, in order, and never one event twice."""

import asyncio
from typing import Any, Protocol

from pymongo.errors import PyMongoError

from fairlane import AsyncMongoTransport
from fairlane.cli.demo.check import Published
from fairlane.cli.demo.records import digest, now
from soak.plan import Plan, Stream

__all__ = ("Progress", "Publishing")

REST = 0.05


class Progress(Protocol):
    """What tells how many executions have ended well."""

    @property
    def handled(self) -> int: ...


class Publishing:
    """Publishes as fast as the machines can follow.

    Attributes:
        published: what publish returned for.
        poison: the places of events that only the dead letters can take.
        repeated: calls that failed and were made again.
    """

    def __init__(self, transport: AsyncMongoTransport[Any], plan: Plan) -> None:
        self._transport = transport
        self._plan = plan
        self.published: list[Published] = []
        self.poison: set[tuple[str, int]] = set()
        self.repeated = 0
        self._is_over = False

    async def go_on(self, progress: Progress) -> None:
        """Publish until `stop`; what has begun is finished."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(self._plan.publishers):
                tasks.create_task(self._publish_all(self._stream(number), progress))

    def stop(self) -> None:
        self._is_over = True

    def _stream(self, number: int) -> Stream:
        groups = range(number, self._plan.groups, self._plan.publishers)
        return Stream(
            [f"group-{group}" for group in groups], self._plan.chance(f"publisher {number}")
        )

    async def _publish_all(self, stream: Stream, progress: Progress) -> None:
        while not self._is_over:
            waiting = len(self.published) - len(self.poison) - progress.handled
            if waiting > self._plan.backlog:
                await asyncio.sleep(REST)
                continue
            group, event = stream.next()
            self.published.append(await self._publish(group, event))
            if event["is_poison"]:
                self.poison.add((group, event["index"]))

    async def _publish(self, group: str, event: dict[str, Any]) -> Published:
        started_at, name = now(), f"{group} {event['index']}"
        while True:
            try:
                seq = await self._transport.publish(group, event, message_id=name)
                break
            except PyMongoError:
                self.repeated += 1
                await asyncio.sleep(REST)
        return Published(
            group=group,
            index=event["index"],
            seq=seq,
            digest=digest(event),
            started_at=started_at,
            returned_at=now(),
        )
