"""How an operator's command ends: a status, and one line for what was expected to go wrong."""

import asyncio

import pytest
import typer
from pymongo.errors import AutoReconnect, OperationFailure, ServerSelectionTimeoutError

from fairlane.cli.outcome import brief, conclude
from fairlane.errors import ConfigurationError, Duplicate, NotFound, PayloadError, ServerUnreachable

LONG = "not primary (configured timeouts: socketTimeoutMS: 1)"


async def _work(result: int | BaseException) -> int:
    if isinstance(result, BaseException):
        raise result
    return result


def status(result: int | BaseException, **options: int) -> int:
    with pytest.raises(typer.Exit) as exited:
        conclude("stats", _work(result), **options)
    return exited.value.exit_code


@pytest.mark.parametrize("result", [0, 1, 2])
def test_status_is_what_the_work_returns(result: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(result) == result
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConfigurationError("odd"), 2),
        (PayloadError("event", "odd"), 2),
        (NotFound("odd"), 1),
        (Duplicate("odd"), 1),
        (ServerUnreachable("odd"), 1),
        (AutoReconnect("odd"), 1),
        (OperationFailure("odd", 13), 1),
        (OSError(28, "odd: the disk is full"), 1),
    ],
)
def test_an_expected_error_is_one_line_and_a_status(
    error: BaseException, expected: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(error) == expected
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith("fairlane stats: ")
    assert "odd" in line
    assert printed.out == ""


def test_who_may_not_is_told_which_role_he_needs(capsys: pytest.CaptureFixture[str]) -> None:
    status(OperationFailure("not authorized", 13))
    assert "readWrite" in capsys.readouterr().err


def test_a_reader_that_has_gone_is_no_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(BrokenPipeError()) == 141
    assert capsys.readouterr() == ("", "")


def test_ctrl_c_is_130_unless_it_is_how_the_command_ends() -> None:
    assert status(KeyboardInterrupt()) == 130
    assert status(KeyboardInterrupt(), interrupted=0) == 0


def test_sigterm_is_143() -> None:
    assert status(asyncio.CancelledError()) == 143


def test_an_unexpected_error_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        conclude("stats", _work(ZeroDivisionError()))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (AutoReconnect(LONG), "not primary"),
        (
            ServerSelectionTimeoutError("refused, Timeout: 5s, Topology Description: <...>"),
            "refused",
        ),
        (OperationFailure("odd, full error: {...}", 1, {"errmsg": "odd"}), "odd"),
        (OperationFailure("odd, full error: {...}", 1), "odd"),
    ],
)
def test_of_a_drivers_error_only_what_happened_is_told(error: OperationFailure, said: str) -> None:
    assert brief(error) == said


def test_a_server_that_repeats_a_whole_command_is_cut_short() -> None:
    assert len(brief(OperationFailure("x" * 10_000))) < 700
