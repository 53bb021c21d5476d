"""What the measuring process and the processes of claimers tell each other, as JSON."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal, NamedTuple

from fairlane.lease.strategy import Strategy

__all__ = ("Call", "Claimed", "Orders", "ProductName", "Share")

ProductName = Literal["groups", "jobs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What a process of claimers has to do.

    Attributes:
        product: what is claimed.
        first: number of its first claimer.
        claimers: how many claim at once in this process.
        batch: how many are asked for in each call.
    """

    url: str
    database: str
    driver: str
    product: ProductName
    strategy: Strategy
    batch: int
    first: int
    claimers: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> "Orders":
        return cls(**json.loads(text))


class Claimed(NamedTuple):
    """A lease as it was returned."""

    group: str
    token: str
    attempt: int


class Call(NamedTuple):
    """One call of a claimer; it began and ended at these seconds of a clock all processes share."""

    began: float
    ended: float
    claimed: tuple[Claimed, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one process did.

    Attributes:
        strategy: by which its groups were claimed.
        commands: that it sent while it claimed, by name.
        calls: of all its claimers; the last one of each claimer returned nothing.
    """

    strategy: str
    commands: Mapping[str, int]
    calls: tuple[Call, ...]

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> "Share":
        fields = json.loads(text)
        calls = (
            Call(began, ended, tuple(Claimed(*each) for each in claimed))
            for began, ended, claimed in fields.pop("calls")
        )
        return cls(**fields, calls=tuple(calls))
