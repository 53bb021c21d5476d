"""Arguments are refused by their name, with what is allowed."""

import math
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from fairlane import checks
from fairlane.errors import ConfigurationError

CENTURY = 100 * 366 * 86_400.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (0, 0.0),
        (-0.0, 0.0),
        (1, 1.0),
        (0.25, 0.25),
        (CENTURY, CENTURY),
        (5e-324, 5e-324),
        (timedelta(0), 0.0),
        (timedelta(milliseconds=1_500), 1.5),
        (timedelta(days=2), 172_800.0),
    ],
)
def test_seconds_takes_numbers_and_timedeltas(value: Any, seconds: float) -> None:
    result = checks.seconds("delay", value)
    assert result == seconds
    assert type(result) is float


@pytest.mark.parametrize(
    "value",
    [
        -1,
        -5e-324,
        math.nan,
        math.inf,
        -math.inf,
        CENTURY + 1,
        10**400,
        True,
        False,
        "1",
        b"1",
        None,
        [1],
        1j,
        Decimal(1),
        Fraction(1),
        timedelta(seconds=-1),
        timedelta.max,
    ],
    ids=repr,
)
def test_seconds_refuses_everything_else(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^delay must be"):
        checks.seconds("delay", value)


@pytest.mark.parametrize("value", [0, 0.0, -0.0, timedelta(0)], ids=repr)
def test_positive_seconds_refuses_zero(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^visibility must be longer than 0"):
        checks.positive_seconds("visibility", value)


def test_positive_seconds_takes_the_smallest_number() -> None:
    assert checks.positive_seconds("visibility", 5e-324) == 5e-324


@pytest.mark.parametrize("value", [0, 60.0, math.inf, timedelta(minutes=1)], ids=repr)
def test_credit_takes_durations_and_infinity(value: Any) -> None:
    assert checks.credit("credit", value) >= 0


@pytest.mark.parametrize("value", [-1, -math.inf, math.nan, True, "60", None], ids=repr)
def test_credit_refuses_everything_else(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^credit must be"):
        checks.credit("credit", value)


@pytest.mark.parametrize("value", [0, 1, 0.5, 1.0], ids=repr)
def test_fraction_takes_0_to_1(value: Any) -> None:
    assert checks.fraction("jitter", value) == value


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, True, "0.5", None], ids=repr)
def test_fraction_refuses_everything_else(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^jitter must be"):
        checks.fraction("jitter", value)


@pytest.mark.parametrize("value", [1, 2, 2**63 - 1], ids=repr)
def test_count_takes_positive_ints(value: int) -> None:
    assert checks.count("n", value) == value


@pytest.mark.parametrize("value", [0, -1, True, 1.0, "1", None], ids=repr)
def test_count_refuses_everything_else(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^n must be an int of at least 1"):
        checks.count("n", value)


def test_count_may_begin_elsewhere() -> None:
    assert checks.count("n", 0, least=0) == 0
    with pytest.raises(ConfigurationError, match="at least 2"):
        checks.count("n", 1, least=2)


@pytest.mark.parametrize("value", [0, 1, 2, 3, 4])
def test_priority_takes_0_to_4(value: int) -> None:
    assert checks.priority("priority", value) == value


@pytest.mark.parametrize("value", [-1, 5, True, False, 1.0, "1", None, math.nan], ids=repr)
def test_priority_refuses_everything_else(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^priority must be an int from 0 to 4"):
        checks.priority("priority", value)


@pytest.mark.parametrize("value", ["", "$ne", "a.b", "a\0b", "x" * 5_000, "Köln \U0001f600"])
def test_text_takes_any_valid_str(value: str) -> None:
    assert checks.text("group_id", value) == value


@pytest.mark.parametrize("value", [None, 1, b"g", ["g"], {"$ne": 1}], ids=repr)
def test_text_refuses_what_is_no_str(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"must be a str, not {type(value).__name__}"):
        checks.text("group_id", value)


@pytest.mark.parametrize("value", ["\ud800", "a\udfffb"], ids=ascii)
def test_text_refuses_lone_surrogates(value: str) -> None:
    with pytest.raises(ConfigurationError, match="group_id is not valid Unicode"):
        checks.text("group_id", value)


def test_optional_text_takes_none() -> None:
    assert checks.optional_text("error", None) is None
    assert checks.optional_text("error", "x") == "x"


class Shouting(str):
    """A `str` of its own kind."""

    __slots__ = ()


def test_group_id_may_be_a_kind_of_str() -> None:
    assert checks.group_id(Shouting("G")) == "G"
