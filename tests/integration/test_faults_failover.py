"""Elections under load on a replica set of several members (fault 53)."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pymongo.errors import AutoReconnect

from integration.wire.crowd import SOON, Crowd

STEP_DOWNS = 3
EVERY = 5.0
"""Seconds."""


@pytest.mark.real_mongod
@pytest.mark.timeout(180)  # an election takes its time
async def test_nothing_acknowledged_is_lost_when_another_member_becomes_primary_under_load(
    make_transport: Callable[..., Any], connect: Callable[..., Any], tmp_path: Path
) -> None:
    crowd, admin = Crowd(make_transport(clock=None), tmp_path), connect("pymongo").admin
    async with crowd.working() as acks:
        for _ in range(STEP_DOWNS):
            await asyncio.sleep(EVERY)
            with suppress(AutoReconnect):  # the old primary may drop whoever asked
                await admin.command({"replSetStepDown": 10, "force": True})
            await acks.more(1, within=3 * SOON)

    assert await crowd.breaches() == []
