"""The processes of the benchmark of peers; that they measure anything is for `nox -s bench`."""

import sys

import pytest
from benchmarks.peers._processes import SubjectFailed, ran
from benchmarks.peers._records import Orders, Sizes

ORDERS = Orders(
    role="work",
    url="mongodb://127.0.0.1:1",
    database="d",
    sizes=Sizes(publishers=1, workers=1, groups=1, depth=1, size=1),
    batch=1,
    expected=1,
    seconds=1.0,
    patience=1.0,
)


async def test_library_that_cannot_be_run_is_named_with_its_last_words() -> None:
    with pytest.raises(SubjectFailed, match=r"status 1: .*No module named .*nobody"):
        await ran(sys.executable, "nobody", [ORDERS, ORDERS], lambda: None)
