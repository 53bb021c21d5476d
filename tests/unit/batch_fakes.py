"""A source of one lease of several messages."""

from collections.abc import Sequence
from typing import Any

from worker_fakes import FakeSource

from fairlane.model import Lease, Message

__all__ = ("SEQS", "BatchSource")

SEQS = (1, 2, 3, 4)


class BatchSource(FakeSource):
    """Hands four messages out once, and notes how they are settled."""

    def __init__(self, attempt: int = 1, events: Sequence[Any] = ("e1", "e2", "e3", "e4")) -> None:
        super().__init__()
        self._events = events
        self.settled: list[tuple[Any, ...]] = []
        self.asked: list[int] = []
        self._attempt = attempt

    async def claim(  # type: ignore[override, unused-ignore]
        self, worker_id: str, *_: Any, order: str = "fair", batch: int = 1
    ) -> Lease[Any] | None:
        self.asked.append(batch)
        if len(self.asked) > 1:
            return None
        return Lease(
            group_id="g",
            seq=SEQS[0],
            event=self._events[0],
            token="t",
            priority=0,
            attempt=self._attempt,
            epoch=1,
            expires_at=30.0,
            messages=tuple(
                Message(seq=seq, group_id="g", event=event)
                for seq, event in zip(SEQS, self._events, strict=True)
            ),
        )

    async def ack(self, lease: Lease[Any]) -> bool:
        self.settled.append(("ack",))
        return True

    async def nack(
        self, lease: Lease[Any], delay: float = 0.0, *, error: str | None = None, done: int = 0
    ) -> bool:
        self.settled.append(("nack", done))
        return True

    async def release(self, lease: Lease[Any], *, done: int = 0) -> bool:
        self.settled.append(("release", done))
        return True

    async def dead_letter(self, lease: Lease[Any], reason: str, *, done: int = 0) -> bool:
        self.settled.append(("dead_letter", done))
        return True
