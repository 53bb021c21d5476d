"""What a run of the contention benchmark is about, and which runs there are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from fairlane.lease.strategy import Strategy

__all__ = ("SCENARIOS", "Case", "Scenario", "cases", "shared_out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """How groups are laid out and claimed.

    Attributes:
        strategy: None is a sorted update wherever the server does it right.
    """

    name: str
    partitions: int
    strategy: Strategy | None = None

    def strategy_on(self, *, is_repaired: bool) -> Strategy:
        """Return what to ask for on the server.

        The library does not know that a server was repaired, so "auto" would avoid its sorted
        updates.
        """
        return self.strategy or ("update_one" if is_repaired else "auto")


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(name="one", partitions=1, strategy="find_one_and_update"),
        Scenario(name="sorted", partitions=1),
        *(Scenario(name=f"p{number}", partitions=number) for number in (8, 32, 128)),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run: a scenario, and how much of everything."""

    scenario: Scenario
    groups: int
    claimers: int

    def __str__(self) -> str:
        return f"{self.scenario.name}, {self.groups} groups, {self.claimers} claimers"


def cases(
    scenarios: Sequence[Scenario], groups: Sequence[int], claimers: Sequence[int]
) -> Iterator[Case]:
    """Yield every combination; those to be compared most closely follow each other."""
    for number, scenario, many in product(groups, scenarios, claimers):
        yield Case(scenario=scenario, groups=number, claimers=many)


def shared_out(claimers: int, processes: int) -> list[range]:
    """Share claimers out over processes, as evenly as they go; no process is left without."""
    processes = min(claimers, processes)
    edges = [claimers * slot // processes for slot in range(processes + 1)]
    return [range(first, end) for first, end in pairwise(edges)]
