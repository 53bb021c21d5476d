"""The proxy itself: what it loses, what it passes on, which commands it means."""

import asyncio
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import bson
import pytest
from pymongo.errors import AutoReconnect
from pymongo.uri_parser import parse_uri

from integration.wire.proxy import Fault, Kind, Proxy, command_name


class Number:
    """A stored number that is counted up through the proxy, and read past it."""

    def __init__(self, through: Any, past: Any) -> None:
        self._through = through
        self._past = past

    async def count_up(self) -> None:
        await self._through.update_one({"_id": 1}, {"$inc": {"n": 1}}, upsert=True)

    async def find(self) -> None:
        await self._through.find_one({"_id": 1})

    async def read(self) -> int:
        return int((await self._past.find_one({"_id": 1}) or {"n": 0})["n"])


@pytest.fixture
async def number(connect: Callable[..., Any], proxy: Proxy, db_name: str) -> AsyncIterator[Number]:
    through = connect("pymongo", proxy.url, retryWrites=False, retryReads=False)
    yield Number(through[db_name].numbers, connect("pymongo")[db_name].numbers)
    await through.close()  # while its server can be reached: without one, closing waits for it


async def is_cut(call: Awaitable[None]) -> bool:
    try:
        await call
    except AutoReconnect:
        return True
    return False


@pytest.mark.parametrize(
    ("kind", "cuts", "counts"),
    [("cut before", True, 0), ("lose reply", True, 1), ("cut after", False, 1)],
)
async def test_fault_decides_what_is_lost(
    number: Number, proxy: Proxy, kind: Kind, cuts: bool, counts: int
) -> None:
    proxy.arm(Fault(kind=kind, command="update"))
    assert await is_cut(number.count_up()) is cuts
    assert (await number.read(), proxy.struck) == (counts, 1)


async def test_connections_cut_after_a_reply_are_opened_again(number: Number, proxy: Proxy) -> None:
    proxy.arm(Fault(kind="cut after", command="update", times=3))
    for _ in range(3):
        await is_cut(number.count_up())
    assert proxy.struck >= 2


async def test_delay_holds_the_command_back(number: Number, proxy: Proxy) -> None:
    proxy.arm(Fault(kind="delay", command="update", seconds=0.1))
    began_at = time.monotonic()
    await number.count_up()
    assert (time.monotonic() - began_at >= 0.1, await number.read()) == (True, 1)


async def test_fault_meets_the_nth_one_and_so_many_in_a_row(number: Number, proxy: Proxy) -> None:
    proxy.arm(Fault(kind="lose reply", command="update", nth=2, times=2))
    cuts = [await is_cut(number.count_up()) for _ in range(4)]
    assert (cuts, proxy.struck) == ([False, True, True, False], 2)


async def test_fault_leaves_other_commands_alone(number: Number, proxy: Proxy) -> None:
    proxy.arm(Fault(kind="lose reply", command="update"))
    assert not await is_cut(number.find())
    assert await is_cut(number.count_up())


async def test_fault_of_any_command_does_not_mean_those_of_the_connection(
    number: Number, proxy: Proxy
) -> None:
    proxy.arm(Fault(kind="cut before", nth=2))
    assert [await is_cut(number.find()), await is_cut(number.count_up())] == [False, True]
    assert proxy.commands == ["find", "update"]


async def test_nothing_is_lost_without_a_fault(number: Number, proxy: Proxy) -> None:
    proxy.arm(Fault(kind="cut before"))
    proxy.arm()
    await number.count_up()
    assert (await number.read(), proxy.struck, proxy.commands) == (1, 0, ["update"])


async def test_cut_all_ends_what_is_open(number: Number, proxy: Proxy) -> None:
    proxy.arm(Fault(kind="delay", command="update", seconds=60.0))
    call = asyncio.ensure_future(is_cut(number.count_up()))
    await proxy.has_struck.wait()
    proxy.cut_all()
    assert (await call, await number.read()) == (True, 0)


async def test_server_that_is_down_is_down_behind_the_proxy() -> None:
    async with Proxy.opened("mongodb://127.0.0.1:1/") as proxy:
        ((host, port),) = parse_uri(proxy.url)["nodelist"]
        reader, writer = await asyncio.open_connection(host, port)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()


def message(sections: bytes, opcode: int = 2013) -> bytes:
    return struct.pack("<iiiii", 20 + len(sections), 1, 0, opcode, 0) + sections


BODY = b"\0" + bson.encode({"insert": "things", "$db": "app"})
DOCUMENTS = bson.encode({"_id": 1})
SEQUENCE = b"\x01" + struct.pack("<i", 14 + len(DOCUMENTS)) + b"documents\0" + DOCUMENTS


@pytest.mark.parametrize(
    "sections", [BODY, BODY + SEQUENCE, SEQUENCE + BODY], ids=["alone", "first", "last"]
)
def test_command_is_named_by_the_body_wherever_it_is(sections: bytes) -> None:
    assert command_name(message(sections)) == "insert"


def test_message_of_another_kind_names_no_command() -> None:
    assert command_name(message(BODY, opcode=2004)) is None
