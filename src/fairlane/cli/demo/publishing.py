"""The publishing side: several publishers at once, each group by exactly one of them, in order."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from fairlane.cli.demo.check import Published
from fairlane.cli.demo.input import Event, Json
from fairlane.cli.demo.records import digest, now
from fairlane.transport import AsyncMongoTransport

__all__ = ("Publishing", "split")


def split(events: Sequence[Event], publishers: int) -> list[list[Event]]:
    """Share the groups out so that the publishers have about the same work; order is kept."""
    sizes = Counter(event.group for event in events)
    loads = [0] * min(publishers, len(sizes))
    owner: dict[str, int] = {}
    for group, size in sizes.most_common():
        owner[group] = loads.index(min(loads))
        loads[owner[group]] += size
    shares: list[list[Event]] = [[] for _ in loads]
    for event in events:
        shares[owner[event.group]].append(event)
    return shares


class Publishing:
    """Publishes a stream; `published` grows as the calls return."""

    def __init__(self, transport: AsyncMongoTransport[dict[str, Json]]) -> None:
        self._transport = transport
        self.published: list[Published] = []

    async def run(self, events: Sequence[Event], publishers: int) -> None:
        async with asyncio.TaskGroup() as tasks:
            for share in split(events, publishers):
                tasks.create_task(self._publish_all(share))

    async def _publish_all(self, events: Sequence[Event]) -> None:
        for event in events:
            started_at = now()
            seq = await self._transport.publish(event.group, event.payload())
            self.published.append(
                Published(
                    group=event.group,
                    index=event.index,
                    seq=seq,
                    digest=digest(event.body),
                    started_at=started_at,
                    returned_at=now(),
                )
            )
