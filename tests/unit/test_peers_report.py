"""Who takes part in the benchmark of peers, and how its result is shown."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.peers import __main__ as program
from benchmarks.peers._catalog import SUBJECTS
from benchmarks.peers._environments import fingerprint, python_of
from benchmarks.peers._table import table

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(program.__file__).parent / "subjects"
FINE = {"not_handled": 0, "cut_off": False, "duplicates": 1, "order_violations": 2}
COST = {
    "per_second": 1234.4,
    "commands_per_message": 2.5,
    "writes_per_message": 3.5,
    "cpu_us_per_message": 800.0,
    "server_cpu_us_per_message": None,
}
RATIO = {
    "publish": 1.0,
    "claim_and_ack": 2.0,
    "end_to_end": 3.0,
    "commands": 4.0,
    "writes": 5.0,
    "cpu": 6.0,
}


def run(subject: str = "fairlane", **changed: Any) -> dict[str, Any]:
    return {
        "subject": subject,
        "title": subject,
        "depth": 3,
        "keeps_order": True,
        "reads": "first",
        "publish": COST,
        "claim_and_ack": COST,
        "end_to_end": COST,
        "latency": {"p50_ms": 1.0, "p95_ms": 2.0, "p99_ms": 3000.0},
        "backlog": FINE,
        "together": FINE,
        "ratios": {"floor": RATIO},
        **changed,
    }


def result(*runs: dict[str, Any], failures: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"sizes": {"groups": 1_000}, "runs": list(runs), "failures": list(failures)}


def row(text: str, title: str) -> list[str]:
    (line, *_) = [line for line in text.splitlines() if line.startswith(f"| {title} ")]
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS)
def test_every_library_has_a_program_and_pinned_requirements(subject: Any) -> None:
    assert (PROGRAMS / f"{subject.program}.py").is_file()
    assert all("==" in requirement for requirement in subject.requirements)


def test_every_program_belongs_to_somebody() -> None:
    programs = {path.stem for path in PROGRAMS.glob("*.py")} - {"__init__"}
    assert programs == {subject.program for subject in SUBJECTS.values()}


def test_what_needs_nothing_runs_in_the_environment_of_the_project(tmp_path: Path) -> None:
    assert python_of(SUBJECTS["floor"], tmp_path) == sys.executable


def test_whole_environment_is_used_again(tmp_path: Path) -> None:
    subject = SUBJECTS["harel"]
    folder = tmp_path / f"{subject.program}-{fingerprint(subject.requirements)}"
    folder.mkdir()
    (folder / "whole").touch()
    assert Path(python_of(subject, tmp_path)).is_relative_to(folder)


def test_other_requirements_have_another_environment() -> None:
    assert fingerprint(["a==1"]) != fingerprint(["a==2"])


def test_table_adds_up_what_went_wrong_in_both_parts() -> None:
    assert row(table(result(run())), "fairlane")[-4:-1] == ["2", "4", "0"]


def test_library_without_order_is_not_blamed() -> None:
    assert "no order promised" in row(table(result(run(keeps_order=False))), "fairlane")


def test_rate_of_what_was_cut_off_is_marked() -> None:
    cells = row(table(result(run(together={**FINE, "cut_off": True}))), "fairlane")
    assert cells[1:4] == ["1,234", "1,234", "1,234†"]


def test_library_that_settled_nothing_has_no_latency() -> None:
    assert "none" in row(table(result(run(latency={}))), "fairlane")


def test_library_that_did_not_run_is_named_with_its_words() -> None:
    failure = {"subject": "x", "title": "x", "depth": 3, "reason": "ended with status 1: boom"}
    assert "boom" in table(result(run(), failures=(failure,)))


def test_table_says_ratios_to_the_bases() -> None:
    lines = table(result(run())).partition("divided by floor")[2]
    assert row(lines, "fairlane")[1:] == ["1.00", "2.00", "3.00", "4.00", "5.00", "6.00", "nan"]


def test_disorder_of_fairlane_ends_the_benchmark_badly() -> None:
    assert list(program.wrongs(result(run()))) == [
        "fairlane, backlog: 2 messages out of order",
        "fairlane, together: 2 messages out of order",
    ]


def test_disorder_of_others_does_not() -> None:
    assert not list(program.wrongs(result(run("seed"))))


def test_stuck_message_of_fairlane_ends_the_benchmark_badly() -> None:
    stuck = {**FINE, "order_violations": 0, "not_handled": 1}
    whole = {**FINE, "order_violations": 0}
    assert list(program.wrongs(result(run(backlog=stuck, together=whole)))) == [
        "fairlane, backlog: 1 messages never handled"
    ]


def test_message_that_time_ran_out_for_is_nobodys_fault() -> None:
    late = {"not_handled": 1, "cut_off": True, "duplicates": 0, "order_violations": 0}
    assert not list(program.wrongs(result(run(backlog=late, together=late))))


def test_library_from_a_registry_may_fail_to_run() -> None:
    failures = ({"subject": "harel", "reason": "no network"},)
    assert not list(program.wrongs(result(failures=failures)))


def test_own_program_that_does_not_run_ends_the_benchmark_badly() -> None:
    failures = ({"subject": "floor", "reason": "boom"},)
    assert list(program.wrongs(result(failures=failures))) == ["floor did not run: boom"]


def test_stored_result_is_shown_without_a_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = tmp_path / "result.json"
    stored.write_text(json.dumps(result(run("harel"))))
    program.main(["--stored", str(stored), "--markdown", str(tmp_path / "table.md")])
    assert row(capsys.readouterr().out, "harel") == row(
        (tmp_path / "table.md").read_text(), "harel"
    )


def test_documented_table_is_that_of_the_stored_result() -> None:
    stored = json.loads((ROOT / "benchmarks/results/peers.json").read_text())
    page = (ROOT / "docs/explanation/performance.md").read_text()
    assert table(stored).strip() in page
