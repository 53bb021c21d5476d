"""The result of a run over jobs, and its JSON object."""

from dataclasses import dataclass

from fairlane.cli.demo.crew import DriverName
from fairlane.cli.demo.jobs.case import Evidence
from fairlane.cli.demo.jobs.check import Verdict
from fairlane.cli.demo.jobs.plan import JobsPlan
from fairlane.cli.demo.jobs.rules import KINDS
from fairlane.cli.demo.report import Judged, Pace, percentile

__all__ = ("JobsReport", "JobsResult", "report")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsReport:
    """The keys of the JSON object, in its order.

    `seconds` run from the first enqueue to the end of the last handler of a job. What a job waits
    runs from the moment it is due to its first start; null where nothing was started.
    """

    enqueued: int
    duplicates: int
    done: int
    failed: int
    ticks: int
    starts: int
    repeated: int
    cut: int
    unstarted: int
    overlapping: int
    not_once: int
    wrong_end: int
    lost: int
    stuck: int
    miscounted: int
    unfenced: int
    early: int
    duplicated: int
    unexpected: int
    workers: int
    processes: int
    seconds: float
    enqueue_per_s: float
    end_per_s: float
    waited_p50_ms: float | None
    waited_p95_ms: float | None
    waited_p99_ms: float | None
    server: str
    driver: DriverName
    ok: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsResult(Judged[JobsReport, Verdict]):
    """A judged run over jobs."""


def report(plan: JobsPlan, server: str, evidence: Evidence, verdict: Verdict) -> JobsReport:
    """Sum up a run, whether or not anything happened in it."""
    pace = Pace.of(evidence.placed, verdict.ended_at)
    is_whole = {call.job for call in evidence.placed} == set(plan.jobs)
    return JobsReport(
        enqueued=verdict.jobs,
        duplicates=verdict.duplicates,
        done=verdict.done,
        failed=verdict.failed,
        ticks=verdict.ticks,
        starts=len(evidence.executions),
        repeated=verdict.repeated.total(),
        cut=verdict.cut,
        unstarted=verdict.unstarted,
        **{kind: verdict.count(kind) for kind in KINDS},
        workers=plan.workers,
        processes=plan.processes,
        seconds=round(pace.seconds, 3),
        enqueue_per_s=pace.calls_per_s,
        end_per_s=pace.per_s(verdict.done + verdict.failed),
        waited_p50_ms=percentile(verdict.waits, 50),
        waited_p95_ms=percentile(verdict.waits, 95),
        waited_p99_ms=percentile(verdict.waits, 99),
        server=server,
        driver=plan.driver,
        ok=is_whole and not verdict.breaches,
    )
