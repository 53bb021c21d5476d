"""The result of a run over jobs as a table for people."""

from collections.abc import Iterator

from rich.table import Table

from fairlane.cli.demo.jobs.report import JobsResult
from fairlane.cli.demo.jobs.rules import Kind
from fairlane.cli.demo.table import Promise, Row, laid_out, milliseconds
from fairlane.cli.demo.wording import causes_in_words, counted, noun, server_in_words

__all__ = ("jobs_table",)

PROMISES: dict[Kind, tuple[str, str]] = {
    "overlapping": ("two holders", "never two holders of a job"),
    "not_once": ("not once", "each job, and each tick, ended exactly once"),
    "wrong_end": ("wrong end", "done or failed, as planned"),
    "lost": ("lost", "what was enqueued is there, what is done was handled"),
    "stuck": ("stuck", "no job is left in the middle"),
    "miscounted": ("miscounted", "attempts are the starts"),
    "unfenced": ("unfenced", "each start has a newer lease"),
    "early": ("early", "none before its delay was over"),
    "duplicated": ("duplicated", "each unique key ran once"),
    "unexpected": ("unexpected", "nothing that was not enqueued"),
}


def jobs_table(result: JobsResult) -> Table:
    return laid_out(_facts(result), _promises(result), is_ok=result.report.ok)


def _facts(result: JobsResult) -> Iterator[Row]:
    report = result.report
    processes = counted(report.processes, "process", "processes")
    skipped = counted(report.duplicates, "duplicate")
    yield "server", "", server_in_words(report.server)
    yield "enqueued", f"{report.enqueued:,}", f"{noun(report.enqueued, 'job')}; {skipped} skipped"
    yield "done", f"{report.done:,}", f"in {report.seconds:,.1f} s"
    yield "failed", f"{report.failed:,}", "as planned" if not report.wrong_end else ""
    yield "ticks", f"{report.ticks:,}", "of the recurring job"
    yield "workers", f"{report.workers:,}", f"{noun(report.workers, 'worker')} in {processes}"
    yield "starts", f"{report.starts:,}", "of handlers"
    yield from _repeated(result)
    yield "waited p50", milliseconds(report.waited_p50_ms), "ms from due to the first start"
    yield "waited p99", milliseconds(report.waited_p99_ms), "ms"


def _repeated(result: JobsResult) -> Iterator[Row]:
    report, was_killed = result.report, result.waited is not None
    causes = causes_in_words(result.verdict.repeated, was_killed=was_killed)
    yield "repeated", f"{report.repeated:,}", causes
    if was_killed:
        unstarted = counted(report.unstarted, "lease")
        yield "cut", f"{report.cut:,}", f"handlers by the kill, and {unstarted} before the start"


def _promises(result: JobsResult) -> list[Promise]:
    return [
        (name, result.verdict.count(kind), promise) for kind, (name, promise) in PROMISES.items()
    ]
