"""The ways in which a transport may talk to its server."""

from dataclasses import dataclass
from itertools import product

import pytest

__all__ = ("COVERING", "PLAINEST", "Setup", "setups")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """One way.

    Attributes:
        driver: by name.
        retries: the driver repeats a command that lost its connection, once.
        is_recent: the server knows the commands of MongoDB 8; without them a publish and a
            clean-up are several commands, and a claim leases by findAndModify.
    """

    driver: str
    retries: bool
    is_recent: bool

    def __str__(self) -> str:
        retries = "retries" if self.retries else "once"
        return f"{self.driver}-{retries}-{'recent' if self.is_recent else 'old'}"


SETUPS = tuple(
    Setup(driver=driver, retries=retries, is_recent=is_recent)
    for driver, retries, is_recent in product(("motor", "pymongo"), (True, False), (True, False))
)
COVERING = tuple(
    setup for setup in SETUPS if (setup.driver == "motor") ^ setup.retries ^ setup.is_recent ^ True
)
"""Every pair of choices is in one of them."""
PLAINEST = Setup(driver="pymongo", retries=False, is_recent=False)
"""The most commands, and none that is sent again by the driver."""


def setups(*always: Setup) -> pytest.MarkDecorator:
    """Parametrize the fixture `setup`; what need not always run gets a mark."""
    extra = pytest.mark.whole_matrix
    params = [
        pytest.param(setup, id=str(setup), marks=() if setup in always else extra)
        for setup in SETUPS
    ]
    return pytest.mark.parametrize("setup", params, indirect=True)
