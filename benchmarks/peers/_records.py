"""What the measuring process and the processes of the libraries tell each other, as JSON lines.

Only the standard library is imported here and in whatever else runs in a library's environment.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Literal, NamedTuple

__all__ = ("Delivery", "Orders", "Publication", "Role", "Share", "Sizes")

Role = Literal["publish", "work"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How many of everything.

    Message n belongs to group n % groups; in its group it is the (n // groups)th. A group has one
    publisher, which publishes its messages one after the other: the order is known.

    Attributes:
        depth: messages in each group.
        size: bytes of padding in each payload.
    """

    publishers: int
    workers: int
    groups: int
    depth: int
    size: int

    @property
    def messages(self) -> int:
        return self.groups * self.depth

    def share_of(self, publisher: int) -> Iterator[int]:
        """Return the numbers of the messages that this publisher publishes, in order."""
        for place in range(self.depth):
            for group in range(publisher, self.groups, self.publishers):
                yield place * self.groups + group


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What one process has to do.

    Attributes:
        batch: messages that are asked for at once, where the library can.
        expected: how many messages there are to be handled.
        seconds: after which it stops in any case.
        patience: seconds without any progress after which a worker gives up.
    """

    role: Role
    url: str
    database: str
    sizes: Sizes
    batch: int
    expected: int
    seconds: float
    patience: float

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> "Orders":
        fields = json.loads(text)
        return cls(sizes=Sizes(**fields.pop("sizes")), **fields)


class Publication(NamedTuple):
    """A message that was published between two seconds of a clock that all processes share."""

    number: int
    began: float
    ended: float


class Delivery(NamedTuple):
    """A message that was handled and then settled; None: it never was."""

    number: int
    handled: float
    settled: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one process did from the sign to begin until its last message.

    Attributes:
        began: when it was told to begin.
        cpu: processor seconds of the process.
        commands: that it sent, by name.
        written: documents that they inserted, changed or deleted.
        versions: of the library and what it stands on.
    """

    began: float
    cpu: float
    commands: Mapping[str, int]
    written: int
    versions: Mapping[str, str]
    published: tuple[Publication, ...] = ()
    delivered: tuple[Delivery, ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> "Share":
        fields = json.loads(text)
        published = tuple(Publication(*each) for each in fields.pop("published"))
        delivered = tuple(Delivery(*each) for each in fields.pop("delivered"))
        return cls(**fields, published=published, delivered=delivered)
