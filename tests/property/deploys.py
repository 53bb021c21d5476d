"""What workers say of themselves while they are deployed anew, and what must hold of it (47)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

__all__ = ("Said", "complaints")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One line of one worker.

    Attributes:
        what: `began`, `finished` and `stopped` of a handler; the kinds of a `WorkerEvent`.
        at: seconds, on one clock for all.
    """

    what: str
    worker: str
    at: float
    group: str = ""
    seq: int = 0
    attempt: int = 0
    interrupted: int = 0


def complaints(log: Iterable[Said], published: Sequence[tuple[str, int]]) -> list[str]:
    """Return what is wrong: `published` has group and number of each message, in order."""
    lines = sorted(log, key=lambda said: said.at)
    return [
        *(each for group, seq in published for each in _of_message(lines, group, seq)),
        *(each for group in {group for group, _ in published} for each in _of_group(lines, group)),
    ]


def _of_message(lines: Sequence[Said], group: str, seq: int) -> Iterator[str]:
    """I1, and what is counted of it."""
    own = [said for said in lines if said.seq == seq]
    said = [each.what for each in own]
    if said.count("finished") != 1 or said.count("acked") != 1:
        yield f"message {seq} of {group}: {said}"
        return
    (finished,) = (each for each in own if each.what == "finished")
    if said.index("acked") != len(said) - 1:
        yield f"message {seq} of {group} was delivered after its ack: {said}"
    if {each.attempt for each in own if each.what == "began"} != {1}:
        yield f"message {seq} of {group}: an attempt was counted: {own}"
    if finished.interrupted != said.count("stopped"):
        yield f"message {seq} of {group}: {finished.interrupted} interruptions instead of {said}"


def _of_group(lines: Sequence[Said], group: str) -> Iterator[str]:
    """I2: in order; I3: never two handlers in a group."""
    own = [said for said in lines if said.group == group]
    first = list(dict.fromkeys(each.seq for each in own if each.what == "began"))
    if first != sorted(first):
        yield f"first deliveries of {group}: {first}"
    handlers = [each for each in own if each.what in ("began", "finished", "stopped")]
    for one, next_one in pairwise(handlers):
        if (one.what == "began") == (next_one.what == "began"):
            yield f"two handlers in {group}: {one} and {next_one}"
