"""`fairlane stats`: what two looks say of the pace, what is shown, and what an outage does."""

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from pymongo.errors import AutoReconnect, OperationFailure
from rich.console import Console, RenderableType
from typer.testing import CliRunner

from fairlane.cli.app import app
from fairlane.cli.screen import Screen
from fairlane.cli.stats import watch as watching
from fairlane.cli.stats.sample import Pace, Sample, document, pace
from fairlane.cli.stats.table import tables
from fairlane.cli.stats.watch import JsonLines, LiveTable, Pages, watch
from fairlane.jobs import JobStats
from fairlane.model import TransportStats

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
EMAIL = JobStats(ready=2, failed=3, total=5, oldest_age=90.0)
JOBS = JobStats(ready=2, failed=3, total=5, oldest_age=90.0, by_type={"email": EMAIL})


def messages(number: int, *, dead: int = 0) -> TransportStats:
    return TransportStats(
        groups=1_234,
        ready=1_000,
        leased=200,
        parked=31,
        stopped=3,
        messages=number,
        dead=dead,
        oldest_age=7_200.0,
        ready_by_priority={4: 10, 0: 990},
    )


def sample(after: float = 0, number: int = 0, numbers: int = 0, dead: int = 0) -> Sample:
    return Sample(
        at=NOON + timedelta(seconds=after),
        messages=messages(number, dead=dead),
        jobs=JOBS,
        numbers=numbers,
    )


def rendered(what: RenderableType, *, width: int = 120) -> str:
    output = StringIO()
    Console(file=output, width=width).print(what)
    return output.getvalue()


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        # 20 published, 30 fewer are there: 50 were settled
        (sample(0, 100, 500), sample(10, 70, 520), Pace(incoming=2.0, outgoing=5.0)),
        # nobody works
        (sample(0, 100, 500), sample(2, 110, 510), Pace(incoming=5.0, outgoing=0.0)),
        # all of it was cleared, and the numbers began anew
        (sample(0, 100, 500), sample(1, 0, 1), Pace(incoming=0.0, outgoing=0.0)),
        # two looks at once
        (sample(0, 100, 500), sample(0, 100, 500), None),
        (Sample(at=NOON, messages=None, jobs=JOBS), sample(1), None),
    ],
)
def test_pace_is_what_numbers_and_messages_say(
    before: Sample, after: Sample, expected: Pace | None
) -> None:
    assert pace(before, after) == expected


def test_tables_show_each_count_of_both_products() -> None:
    shown = rendered(tables(sample(number=5_678, dead=9), None))
    counts = ("1,234", "1,000", "200", "31", "3", "5,678", "9")
    for word in (*counts, "2.0 h", "email", "1.5 min", "all"):
        assert word in shown
    assert "10 of priority 4, 990 of priority 0" in shown


def test_pace_is_shown_only_where_it_is_watched() -> None:
    speed = Pace(incoming=12.34, outgoing=0.0)
    assert "in/s" not in rendered(tables(sample(), speed))
    assert "12.3" in rendered(tables(sample(), speed, is_watched=True))


def test_watched_table_is_whole_in_a_terminal_of_80_columns() -> None:
    shown = rendered(
        tables(sample(number=9_999), Pace(incoming=10.0, outgoing=10.0), is_watched=True), width=80
    )
    assert "…" not in shown
    for heading in ("groups", "stopped", "messages", "oldest", "out/s"):
        assert heading in shown


def test_a_type_of_job_cannot_move_the_cursor() -> None:
    odd = Sample(at=NOON, messages=None, jobs=JobStats(by_type={"\x1b[2J[red]": EMAIL}))
    assert r"\x1b[2J[red]" in rendered(tables(odd, None))


def test_product_that_is_not_used_is_not_shown_and_null_for_programs() -> None:
    only_jobs = Sample(at=NOON, messages=None, jobs=JOBS)
    assert "groups" not in rendered(tables(only_jobs, None))
    assert document(only_jobs, None)["messages"] is None


def test_document_has_the_attributes_of_the_librarys_values() -> None:
    printed = document(sample(number=5), Pace(incoming=1.0, outgoing=2.0))
    assert printed["messages"]["oldest_age"] == 7_200.0
    assert printed["messages"]["outgoing_per_s"] == 2.0
    assert printed["jobs"]["by_type"]["email"]["failed"] == 3
    assert "by_type" not in printed["jobs"]["by_type"]["email"]


class Looks:
    """Stands in for a deployment: each look gives the next result, the last one ends the watch."""

    def __init__(self, *results: Sample | BaseException) -> None:
        self._results = list(results)

    async def __call__(self) -> Sample:
        if not self._results:
            raise KeyboardInterrupt
        result = self._results.pop(0)
        if isinstance(result, BaseException):
            raise result
        return result


class Notes:
    def __init__(self) -> None:
        self.shown: list[Pace | None] = []
        self.problems: list[str] = []

    def show(self, sample: Sample, speed: Pace | None) -> None:
        self.shown.append(speed)

    def excuse(self, problem: str) -> None:
        self.problems.append(problem)


def watched(display: watching.Display, *results: Sample | BaseException) -> None:
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(watch(Looks(*results), display, 0.0))


def test_watch_tells_the_pace_from_the_second_look_on() -> None:
    notes = Notes()
    watched(notes, sample(0, 0, 0), sample(1, 0, 5))
    assert notes.shown == [None, Pace(incoming=5.0, outgoing=5.0)]


def test_watch_goes_on_when_the_server_is_back_and_bridges_the_gap() -> None:
    notes = Notes()
    watched(notes, sample(0, 0, 0), AutoReconnect("it has gone"), sample(10, 0, 50))
    assert notes.problems == ["no answer: it has gone"]
    assert notes.shown == [None, Pace(incoming=5.0, outgoing=5.0)]


def test_watch_ends_with_an_error_that_waiting_does_not_mend() -> None:
    with pytest.raises(OperationFailure):
        asyncio.run(watch(Looks(OperationFailure("may not", 13)), Notes(), 0.0))


async def test_watch_says_that_a_server_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "LONG", 0.01)
    notes = Notes()
    told = asyncio.Event()
    notes.excuse = lambda problem: told.set()  # type: ignore[method-assign]

    async def look() -> Sample:
        await asyncio.Event().wait()
        raise AssertionError

    task = asyncio.ensure_future(watch(look, notes, 0.0))
    await told.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_json_lines_are_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines = JsonLines()
    lines.show(sample(0), None)
    lines.show(sample(1), Pace(incoming=1.0, outgoing=1.0))
    lines.excuse("no answer")
    printed = capsys.readouterr()
    first, second = (json.loads(line) for line in printed.out.splitlines())
    assert "incoming_per_s" in second["messages"].keys() - first["messages"].keys()
    assert printed.err == "fairlane stats: no answer\n"


def test_pages_stand_below_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    pages = Pages()
    for after in (0, 60):
        pages.show(sample(after), None)
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("2026")] == [
        "2026-12-01 12:00:00 UTC",
        "2026-12-01 12:01:00 UTC",
    ]


def frames(*problems: Sequence[str]) -> str:
    screen = Screen()
    screen.file = StringIO()
    screen._force_terminal = True
    with LiveTable("app", screen) as display:
        display.show(sample(number=5_678), None)
        for problem in problems:
            display.excuse(str(problem))
    return screen.file.getvalue()


def test_live_table_keeps_what_it_knows_while_the_server_is_away() -> None:
    last = frames("it has \x1b gone").rpartition("app, 2026-12-01 12:00:00 UTC")[2]
    assert "5,678" in last
    assert r"it has \x1b gone" in last


@pytest.mark.parametrize("arguments", [("--interval", "0"), ("--interval", "soon"), ("extra",)])
def test_a_wrong_command_line_is_2(arguments: tuple[str, ...]) -> None:
    assert CliRunner().invoke(app, ["stats", *arguments]).exit_code == 2
