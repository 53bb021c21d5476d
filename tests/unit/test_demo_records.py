"""The record of `fairlane demo`: written at once, read while it grows, complete after a kill."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fairlane.cli.demo.records import Delivery, Journal, Recorder, digest

DELIVERY = Delivery(group="g\n", index=3, seq=17, attempt=2, digest="d")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "worker.jsonl"


@pytest.fixture
def recorder(path: Path) -> Iterator[Recorder]:
    recorder = Recorder(path, "worker-1")
    yield recorder
    recorder.close()


def test_a_finished_handler_is_recorded_with_its_delivery_and_times(recorder: Recorder, path: Path):
    with recorder.execution(DELIVERY):
        pass
    (execution,) = Journal(path).poll()
    assert (execution.worker, execution.delivery) == ("worker-1", DELIVERY)
    assert execution.outcome == "handled"
    assert execution.started_at <= execution.ended_at


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ValueError, "failed"),
        (asyncio.CancelledError, "cancelled"),
        (KeyboardInterrupt, "cancelled"),
    ],
)
def test_a_handler_that_ends_otherwise_is_recorded_and_its_error_passes(
    recorder: Recorder, path: Path, error: type[BaseException], outcome: str
):
    with pytest.raises(error), recorder.execution(DELIVERY):
        raise error
    assert [execution.outcome for execution in Journal(path).poll()] == [outcome]


def test_a_start_is_in_the_file_before_the_handler_runs(recorder: Recorder, path: Path):
    with recorder.execution(DELIVERY):
        assert json.loads(path.read_bytes())["seq"] == 17


def test_a_handler_without_an_end_was_cut_when_its_process_died(recorder: Recorder, path: Path):
    journal = Journal(path)
    with recorder.execution(DELIVERY):
        assert journal.poll() == []
        (cut,) = Journal(path).executions(died_at=2**62)
    assert (cut.outcome, cut.ended_at) == ("cut", 2**62)


def test_interleaved_handlers_keep_their_own_ends(recorder: Recorder, path: Path):
    other = replace(DELIVERY, group="h")
    with pytest.raises(ValueError), recorder.execution(DELIVERY), recorder.execution(other):  # noqa: PT011
        raise ValueError
    ended = Journal(path).poll()
    assert {execution.delivery.group for execution in ended} == {"g\n", "h"}


def test_a_journal_tells_how_many_handlers_are_at_work(recorder: Recorder, path: Path) -> None:
    journal = Journal(path)
    with recorder.execution(DELIVERY):
        journal.poll()
        assert journal.running == 1
    journal.poll()
    assert journal.running == 0


def test_how_a_lease_ended_is_recorded_beside_the_handlers(recorder: Recorder, path: Path) -> None:
    with recorder.execution(DELIVERY):
        recorder.settled("acked", "j", seq=4, attempt=2)
    journal = Journal(path)
    assert len(journal.poll()) == 1
    (settlement,) = journal.settlements
    assert (settlement.worker, settlement.kind, settlement.group) == ("worker-1", "acked", "j")
    assert (settlement.seq, settlement.attempt) == (4, 2)


def test_poll_returns_each_execution_once(recorder: Recorder, path: Path):
    journal = Journal(path)
    for _ in range(2):
        with recorder.execution(DELIVERY):
            pass
        assert len(journal.poll()) == 1
    assert len(journal.executions(died_at=0)) == 2


def test_a_line_that_is_being_written_is_left_for_the_next_poll(recorder: Recorder, path: Path):
    with recorder.execution(DELIVERY):
        pass
    whole = path.read_bytes()
    journal = Journal(path)
    path.write_bytes(whole[:-5])
    assert journal.poll() == []
    path.write_bytes(whole)
    assert len(journal.poll()) == 1


def test_a_journal_that_does_not_exist_yet_is_empty(tmp_path: Path):
    assert Journal(tmp_path / "later.jsonl").executions(died_at=0) == []


def test_a_digest_tells_content_and_order_of_keys():
    assert digest({"a": 1, "b": 2}) == digest({"a": 1, "b": 2})
    assert len({digest(body) for body in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, 1, 1.0, "1")}) == 5
