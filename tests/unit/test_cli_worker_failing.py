"""Which errors end a worker for good, and what is said about them."""

import logging

import pytest
from pymongo.errors import (
    AutoReconnect,
    InvalidURI,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)

from fairlane.cli.outcome import Refused
from fairlane.cli.worker.failing import status_of, tell
from fairlane.cli.worker.finding import Unimportable
from fairlane.cli.worker.plan import Plan
from fairlane.errors import ConfigurationError, FairlaneError, ServerUnreachable

TEXT = Plan(target="shop:pool")
JSON = Plan(target="shop:pool", log_format="json")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Refused("no"), 2),
        (Unimportable("no"), 2),
        (ConfigurationError("no"), 2),
        (InvalidURI("no"), 2),
        (OperationFailure("no", 18), 2),
        (OperationFailure("no", 13), 2),
        (ExceptionGroup("", [ExceptionGroup("", [ConfigurationError("no")])]), 2),
        (OperationFailure("no", 91), 1),
        (ServerSelectionTimeoutError("no"), 1),
        (ServerUnreachable("no"), 1),
        (FairlaneError("no"), 1),
        (KeyError("no"), 1),
        (ExceptionGroup("", [ConfigurationError("no"), KeyError("no")]), 1),
    ],
)
def test_only_what_another_try_cannot_mend_is_no_reason_to_start_again(
    error: Exception, status: int
) -> None:
    assert status_of(error) == status


@pytest.mark.parametrize("error", [Refused("odd"), ServerUnreachable("odd"), AutoReconnect("odd")])
def test_an_expected_error_is_one_line(
    error: Exception, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    tell(TEXT, error)
    assert capsys.readouterr().err.count("\n") == 1
    assert caplog.records == []


@pytest.mark.parametrize(
    "error", [PyMongoError("odd"), OperationFailure("odd", 18), Refused("odd"), KeyError("odd")]
)
def test_a_log_of_json_has_no_other_line(
    error: Exception, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    tell(JSON, error)
    assert capsys.readouterr().err == ""
    last = caplog.records[-1]
    assert (last.levelno, "odd" in last.getMessage()) == (logging.CRITICAL, True)


def test_an_error_of_the_application_is_shown_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cause = ZeroDivisionError("odd")
    module = Unimportable("cannot import")
    module.__cause__ = cause
    for error in (module, ExceptionGroup("", [cause])):
        tell(TEXT, error)
    assert [record.exc_info and record.exc_info[1] for record in caplog.records] == [cause, cause]


def test_running_a_loop_in_the_loop_is_told_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    tell(TEXT, RuntimeError("asyncio.run() cannot be called from a running event loop"))
    assert "let an `async def`" in capsys.readouterr().err
