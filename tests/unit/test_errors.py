"""Errors can be caught by kind, say what happened, and cross a process boundary."""

import copy
import pickle
from collections.abc import Callable

import pytest

from fairlane import (
    ConfigurationError,
    Duplicate,
    FairlaneError,
    LeaseLost,
    NotFound,
    PayloadError,
    Reject,
    Retry,
    ServerUnreachable,
)

ERRORS = [
    ConfigurationError("bad"),
    ServerUnreachable("nobody"),
    LeaseLost("g", 7, 9),
    PayloadError("event.a", "it is a set"),
    Duplicate("taken"),
    NotFound("nothing"),
]
ANSWERS = [Retry(2.5), Retry(), Reject("why")]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_every_error_is_a_fairlane_error(error: Exception) -> None:
    assert isinstance(error, FairlaneError)


def pickled(error: Exception) -> Exception:
    copied: Exception = pickle.loads(pickle.dumps(error))
    return copied


@pytest.mark.parametrize("copied", [pickled, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("error", [*ERRORS, *ANSWERS], ids=repr)
def test_error_survives_a_round_trip(
    error: Exception, copied: Callable[[Exception], Exception]
) -> None:
    again = copied(error)
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (ConfigurationError, ValueError),
        (PayloadError, ValueError),
        (ServerUnreachable, ConnectionError),
        (NotFound, LookupError),
    ],
)
def test_error_is_also_the_builtin_that_it_resembles(
    error: type[Exception], builtin: type[Exception]
) -> None:
    assert issubclass(error, builtin)


def test_lease_lost_names_what_was_lost() -> None:
    error = LeaseLost("orders/7", 12, 34)
    assert (error.group_id, error.seq, error.epoch) == ("orders/7", 12, 34)
    assert "'orders/7' (seq 12, epoch 34)" in str(error)


def test_payload_error_names_the_path() -> None:
    error = PayloadError("event.a[0]", "it is a set")
    assert (error.path, error.problem) == ("event.a[0]", "it is a set")
    assert str(error) == "cannot store event.a[0]: it is a set"


def test_answers_of_a_handler_are_no_fairlane_errors() -> None:
    """`except FairlaneError` in a handler must not swallow them."""
    assert not issubclass(Retry, FairlaneError)
    assert not issubclass(Reject, FairlaneError)
