"""From the calls of all claimers to figures, and from figures to ratios: decisions without I/O."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from benchmarks._claims_case import Case
from benchmarks._claims_records import Call, Claimed, Share
from benchmarks._measuring import percentiles

__all__ = ("DEFINITIONS", "Figures", "figures", "ratios", "returned")

DEFINITIONS = {
    "drained_seconds": "from the first call to the return of the last lease",
    "rested_seconds": "from the first call until every claimer had found nothing",
    "claims_per_second": "leases returned, divided by drained_seconds",
    "commands_per_claim": "all commands in rested_seconds, divided by the leases returned: those "
    "that found nothing are included",
    "empty_sweeps": "calls that returned nothing; a claimer stops at its first one",
    "early_empty_sweeps": "those that ended before a call began that returned a lease, so that "
    "something was due all the time",
    "claim": "durations of the calls that returned leases; claim_many is one call",
    "empty_sweep": "durations of the calls that returned nothing",
    "server_cpu_ms_per_claim": "processor time of a local server in rested_seconds, divided by the "
    "leases returned; other work on the machine hardly changes it; null: not known",
    "write_conflicts": "growth of serverStatus().metrics.operation.writeConflicts; null: not told",
    "ratios": "of the medians over all rounds, between runs that differ in one thing only",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one run has measured; `DEFINITIONS` says what each figure means."""

    strategy: str
    drained_seconds: float
    rested_seconds: float
    claims_per_second: float
    commands_per_claim: float
    commands: Mapping[str, int]
    empty_sweeps: int
    early_empty_sweeps: int
    claim: Mapping[str, float]
    empty_sweep: Mapping[str, float]
    server_cpu_ms_per_claim: float | None
    write_conflicts: int | None


def returned(shares: Sequence[Share]) -> list[Claimed]:
    """Return all leases that the claimers got."""
    return [claimed for call in _calls(shares) for claimed in call.claimed]


def figures(
    shares: Sequence[Share], *, server_cpu: float | None = None, write_conflicts: int | None = None
) -> Figures:
    """Sum up what the processes did; each claimer made at least one call.

    `server_cpu` and `write_conflicts` are what the server used and counted meanwhile.
    """
    calls = _calls(shares)
    hits = [call for call in calls if call.claimed]
    empty = [call for call in calls if not call.claimed]
    began = min(call.began for call in calls)
    drained = max((call.ended for call in hits), default=began) - began
    claims = len(returned(shares))
    commands = sum((Counter(share.commands) for share in shares), Counter[str]())
    return Figures(
        strategy=" and ".join(sorted({share.strategy for share in shares})),
        drained_seconds=round(drained, 3),
        rested_seconds=round(max(call.ended for call in calls) - began, 3),
        claims_per_second=round(claims / drained, 1) if claims else 0.0,
        commands_per_claim=round(commands.total() / max(claims, 1), 3),
        commands=dict(commands),
        empty_sweeps=len(empty),
        early_empty_sweeps=_early(hits, empty),
        claim=percentiles([call.ended - call.began for call in hits]),
        empty_sweep=percentiles([call.ended - call.began for call in empty]),
        server_cpu_ms_per_claim=(
            None if server_cpu is None else round(server_cpu / max(claims, 1) * 1e3, 3)
        ),
        write_conflicts=write_conflicts,
    )


def ratios(measured: Mapping[Case, Sequence[Figures]]) -> Iterator[dict[str, object]]:
    """Compare each case with the last one before it that differs in one thing only."""
    seen: list[Case] = []
    for case, rounds in measured.items():
        for other in _neighbours(case, seen):
            pairs = zip(_rated(rounds), _rated(measured[other]), strict=True)
            yield {
                "of": str(case),
                "to": str(other),
                **{name: round(value / base, 3) for (name, value), (_, base) in pairs if base},
            }
        seen.append(case)


def _calls(shares: Sequence[Share]) -> list[Call]:
    return [call for share in shares for call in share.calls]


def _early(hits: Sequence[Call], empty: Sequence[Call]) -> int:
    last = max((call.began for call in hits), default=float("-inf"))
    return sum(call.ended < last for call in empty)


def _neighbours(case: Case, earlier: Sequence[Case]) -> Iterator[Case]:
    for name in ("scenario", "groups", "claimers"):
        own = {name: getattr(case, name)}
        yield from [other for other in earlier if replace(other, **own) == case][-1:]


def _rated(rounds: Sequence[Figures]) -> Iterator[tuple[str, float]]:
    yield "claims_per_second", median(each.claims_per_second for each in rounds)
    yield "rested_seconds", median(each.rested_seconds for each in rounds)
    yield "commands_per_claim", median(each.commands_per_claim for each in rounds)
    yield "server_cpu_ms_per_claim", median(each.server_cpu_ms_per_claim or 0.0 for each in rounds)
    yield "claim_p50", median(each.claim.get("p50_ms", 0.0) for each in rounds)
