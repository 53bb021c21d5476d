"""From what the processes of a library did to figures, and from figures to ratios: no I/O."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks._measuring import percentiles
from benchmarks.peers._processes import Ran
from benchmarks.peers._records import Delivery, Publication, Share, Sizes

__all__ = (
    "BASES",
    "DEFINITIONS",
    "Cost",
    "Figures",
    "Outcome",
    "cost",
    "duplicates",
    "figures",
    "latencies",
    "order_violations",
    "outcome",
    "ratio",
    "ratios",
)

DEFINITIONS = {
    "load_before": "programs that wanted to run on this machine in the minute before it: where it "
    "is not near 0, rates are too low, and unequally so",
    "publish": "all publishers at once, nobody works: messages divided by the time until the last "
    "publish returned",
    "claim_and_ack": "then all workers at once, nobody publishes: messages divided by the time "
    "until the last one was settled",
    "end_to_end": "another database, both at once: messages settled, divided by the time from the "
    "first publish to the last settlement",
    "commands_per_message": "sent by all clients of the library's processes, as the driver's "
    "monitoring sees them; handshakes, sessions' ends and the making of collections and indexes "
    "are not counted; polls that find nothing are",
    "writes_per_message": "documents that these commands inserted, matched for a change or "
    "deleted, as their replies say: they remain when batches save commands",
    "cpu_us_per_message": "processor time of the library's processes, not of the server",
    "per_message": "commands, writes and client CPU of each process are divided by the messages "
    "that it published or settled, so that what was cut off does not count; of the server's "
    "processor time the part of each is not known, and of a part that was cut off it says little",
    "server_cpu_us_per_message": "processor time of a local server until the processes were done, "
    "the patience with stuck messages included; other work on the machine hardly changes it; null: "
    "not known",
    "latency": "from the call of publish to the settlement, in the end-to-end part: mostly "
    "waiting behind other messages, since publishers do not wait for workers",
    "duplicates": "deliveries of messages that had been delivered before",
    "order_violations": "messages whose first delivery began before that of the message published "
    "before it in its group; a library that promises no order breaks no promise by them",
    "not_handled": "published messages that were never settled: because time ran out (cut_off), or "
    "because nothing happened any more for as long as the workers' patience lasts",
    "reads": "which waiting messages the library reads for each that it handles: the first ones by "
    "an index; up to all, until one fits; all; or all here, where a server that uses the "
    "indexes as MongoDB does would not",
    "ratios": "rates, commands, writes and processor times divided by those of the other in the "
    "same run; of rates more is better, of the rest less",
}
BASES = ("fairlane", "floor")
"""Whom everybody is compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one part took, in all processes that had a part in it."""

    messages: int
    per_second: float
    commands_per_message: float
    writes_per_message: float
    cpu_us_per_message: float
    server_cpu_us_per_message: float | None
    commands: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of the messages of a part in which there was work."""

    not_handled: int
    cut_off: bool
    duplicates: int
    order_violations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What was measured of one library at one depth; `DEFINITIONS` says what it means."""

    publish: Cost
    claim_and_ack: Cost
    end_to_end: Cost
    latency: Mapping[str, float]
    backlog: Outcome
    together: Outcome
    versions: Mapping[str, str]


def figures(published: Ran, worked: Ran, together: Ran, sizes: Sizes, *, seconds: float) -> Figures:
    """Sum up what a publishing and a working process did, one after the other and at once.

    `seconds` is how long each was allowed to go on.
    """
    (publisher,), (worker,) = published.shares, worked.shares
    both_publisher, both_worker = together.shares
    return Figures(
        publish=cost(published),
        claim_and_ack=cost(worked),
        end_to_end=cost(together),
        latency=percentiles(latencies(both_publisher.published, both_worker.delivered)),
        backlog=outcome(publisher, worker, sizes.groups, seconds=seconds),
        together=outcome(both_publisher, both_worker, sizes.groups, seconds=seconds),
        versions=worker.versions,
    )


def cost(ran: Ran) -> Cost:
    """Divide what each process used by the messages that it did, and the time by the last's."""
    last = ran.shares[-1]
    messages = _done(last)
    took = _ended(last) - min(share.began for share in ran.shares)
    return Cost(
        messages=messages,
        per_second=round(messages / took, 1) if took > 0 else 0.0,
        commands_per_message=round(sum(_each(s, sum(s.commands.values())) for s in ran.shares), 3),
        writes_per_message=round(sum(_each(s, s.written) for s in ran.shares), 3),
        cpu_us_per_message=round(sum(_each(s, s.cpu) for s in ran.shares) * 1e6, 1),
        server_cpu_us_per_message=(
            None if ran.metered is None else round(_each(last, ran.metered) * 1e6, 1)
        ),
        commands=dict(sum((Counter(share.commands) for share in ran.shares), Counter[str]())),
    )


def outcome(published: Share, worked: Share, groups: int, *, seconds: float) -> Outcome:
    not_handled = len(published.published) - _settled(worked)
    return Outcome(
        not_handled=not_handled,
        cut_off=not_handled > 0 and _last_settled(worked) - worked.began > 0.9 * seconds,
        duplicates=duplicates(worked.delivered),
        order_violations=order_violations(worked.delivered, groups),
    )


def duplicates(delivered: Sequence[Delivery]) -> int:
    return len(delivered) - len({each.number for each in delivered})


def order_violations(delivered: Sequence[Delivery], groups: int) -> int:
    """Count the messages that were first handled before their predecessor in the group was."""
    seen: set[int] = set()
    violations = 0
    for number in (each.number for each in delivered):
        before = number - groups
        violations += number not in seen and before >= 0 and before not in seen
        seen.add(number)
    return violations


def latencies(published: Sequence[Publication], delivered: Sequence[Delivery]) -> list[float]:
    """Return the seconds from the publish of each message to its first settlement."""
    began = {each.number: each.began for each in published}
    settled: dict[int, float] = {}
    for each in delivered:
        if each.settled is not None:
            settled[each.number] = min(each.settled, settled.get(each.number, each.settled))
    return [settled[number] - began[number] for number in settled if number in began]


def ratios(all_figures: Mapping[str, Figures]) -> dict[str, dict[str, dict[str, float]]]:
    """Return for each library its figures divided by those of each base that took part."""
    return {
        name: {base: ratio(own, all_figures[base]) for base in BASES if base in all_figures}
        for name, own in all_figures.items()
    }


def ratio(own: Figures, base: Figures) -> dict[str, float]:
    pairs = zip(_rated(own), _rated(base), strict=True)
    return {name: round(value / other, 3) for (name, value), (_, other) in pairs if other}


def _rated(each: Figures) -> Iterator[tuple[str, float]]:
    yield "publish", each.publish.per_second
    yield "claim_and_ack", each.claim_and_ack.per_second
    yield "end_to_end", each.end_to_end.per_second
    yield "commands", each.end_to_end.commands_per_message
    yield "writes", each.end_to_end.writes_per_message
    yield "cpu", each.end_to_end.cpu_us_per_message
    yield "server_cpu", each.end_to_end.server_cpu_us_per_message or 0.0


def _each(share: Share, amount: float) -> float:
    return amount / max(_done(share), 1)


def _done(share: Share) -> int:
    return len(share.published) or _settled(share)


def _ended(share: Share) -> float:
    ends = (each.ended for each in share.published)
    return max(ends, default=_last_settled(share))


def _settled(share: Share) -> int:
    return len({each.number for each in share.delivered if each.settled is not None})


def _last_settled(share: Share) -> float:
    times = (each.settled for each in share.delivered if each.settled is not None)
    return max(times, default=share.began)
