"""How many jobs of each type a pool has in hand, and what it can take on beside them."""

from collections import Counter
from collections.abc import Iterable

from fairlane.jobs import Definition
from fairlane.jobs.working import Demand

__all__ = ("Load",)


class Load:
    def __init__(
        self, definitions: Iterable[Definition], *, worker_id: str, default_lease: float
    ) -> None:
        self._worker_id = worker_id
        self._leases = {each.name: each.lease or default_lease for each in definitions}
        self._caps = {
            each.name: each.max_concurrency
            for each in definitions
            if each.max_concurrency is not None
        }
        self._in_hand: Counter[str] = Counter()

    @property
    def is_capped(self) -> bool:
        return bool(self._caps)

    def demand(self) -> Demand | None:
        """Return what to claim; None if there is enough of every type."""
        left = {name: cap - self._in_hand[name] for name, cap in self._caps.items()}
        full = {name for name, number in left.items() if number <= 0}
        leases = {name: lease for name, lease in self._leases.items() if name not in full}
        if not leases:
            return None
        caps = {name: number for name, number in left.items() if name not in full}
        return Demand(worker_id=self._worker_id, leases=leases, caps=caps, is_filtered=bool(full))

    def lease_of(self, type: str) -> float:
        return self._leases[type]

    def add(self, type: str) -> None:
        self._in_hand[type] += 1

    def remove(self, type: str) -> None:
        self._in_hand[type] -= 1
