"""A TCP proxy that reads enough of the MongoDB wire protocol to spoil one command on purpose."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Literal

from pymongo.uri_parser import parse_uri

__all__ = ("Fault", "Kind", "Proxy", "command_name")

Kind = Literal["cut before", "lose reply", "cut after", "delay"]

OPTIONS = "directConnection=true&heartbeatFrequencyMS=500&serverMonitoringMode=poll"
HEADER = struct.Struct("<iiii")
INT = struct.Struct("<i")
OP_MSG = 2013
BODY = 0
OF_THE_CONNECTION = ("hello", "ismaster", "ping", "saslStart", "saslContinue", "endSessions")
GONE = (ConnectionError, asyncio.IncompleteReadError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What becomes of some commands on their way.

    Attributes:
        kind: `cut before`: the connection ends, the server never sees the command;
            `lose reply`: the server has applied it, the connection ends instead of its reply;
            `cut after`: the reply arrives, then the connection ends;
            `delay`: the command waits before it is passed on.
        command: its name; None for any that is not about the connection itself.
        nth: the first one that is met, counted from 1.
        times: how many in a row are met.
        seconds: of a delay.
    """

    kind: Kind
    command: str | None = None
    nth: int = 1
    times: int = 1
    seconds: float = 0.0


class Proxy:
    """Passes everything on, but for what `arm` was told. `opened` makes one.

    Attributes:
        url: where clients connect, without looking for other members of the replica set.
        commands: the names of the commands that came since `arm`, those about connections left out.
        struck: how many of them met the fault.
        has_struck: set when the first one does.
    """

    def __init__(self, server_url: str) -> None:
        ((host, port),) = parse_uri(server_url)["nodelist"]
        self._host, self._port = host, port or 27017
        self._fault: Fault | None = None
        self._matching = 0
        self._connections: set[Connection] = set()
        self._speaking = asyncio.Event()
        self._speaking.set()
        self.url = ""
        self.commands: list[str] = []
        self.struck = 0
        self.has_struck = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def opened(cls, server_url: str) -> "AsyncIterator[Proxy]":
        """Listen in front of the server for the length of an `async with` block."""
        proxy = cls(server_url)
        listener = await asyncio.start_server(proxy._serve, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        proxy.url = f"mongodb://127.0.0.1:{port}/?{OPTIONS}"
        try:
            yield proxy
        finally:
            listener.close()
            proxy.speak()
            for connection in tuple(proxy._connections):
                await connection.ended.wait()

    def arm(self, fault: Fault | None = None) -> None:
        """Let the fault meet what comes from now on; None: nothing. Forgets what came before."""
        self._fault = fault
        self._matching = self.struck = 0
        self.commands = []
        self.has_struck.clear()

    def cut_all(self) -> None:
        """End every connection now."""
        for connection in self._connections:
            connection.close()

    def hush(self) -> None:
        """Pass nothing on from now on: connections are accepted, and nobody is answered."""
        self._speaking.clear()

    def speak(self) -> None:
        """End every connection, so that what was held up is lost, and pass on what comes anew."""
        self.cut_all()
        self._speaking.set()

    async def allowed(self) -> None:
        """Wait until something may be passed on."""
        await self._speaking.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(self, (reader, writer))
        self._connections.add(connection)
        try:
            await connection.run(self._host, self._port)
        finally:
            self._connections.remove(connection)
            connection.ended.set()

    def strike(self, frame: bytes) -> Fault | None:
        """Return the fault if the request meets it."""
        name, fault = command_name(frame), self._fault
        if name is None or name in OF_THE_CONNECTION:
            return None
        self.commands.append(name)
        if fault is None or fault.command not in (None, name):
            return None
        self._matching += 1
        if not fault.nth <= self._matching < fault.nth + fault.times:
            return None
        self.struck += 1
        self.has_struck.set()
        return fault


Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Connection:
    """One client's connection and the one to the server that stands for it."""

    def __init__(self, proxy: Proxy, client: Stream) -> None:
        self._proxy = proxy
        self._client = self._server = client
        self._marked: dict[int, Kind] = {}
        self._closed = asyncio.Event()
        self.ended = asyncio.Event()

    async def run(self, host: str, port: int) -> None:
        with suppress(OSError):  # the server is down: so are we
            self._server = await asyncio.open_connection(host, port)
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(self._upwards()))
                pumps.create_task(self._pump(self._downwards()))
        self.close()
        for _, writer in (self._client, self._server):
            with suppress(OSError):
                await writer.wait_closed()

    async def _pump(self, frames: AsyncIterator[tuple[asyncio.StreamWriter, bytes]]) -> None:
        """Pass frames on until either end, or a fault, is the end of both directions."""
        with suppress(*GONE):
            async for writer, frame in frames:
                await self._proxy.allowed()
                writer.write(frame)
                await writer.drain()
        self.close()

    def close(self) -> None:
        self._closed.set()
        for _, writer in (self._client, self._server):
            writer.close()

    async def _upwards(self) -> AsyncIterator[tuple[asyncio.StreamWriter, bytes]]:
        while True:
            frame = await read_frame(self._client[0])
            fault = self._proxy.strike(frame)
            if fault is not None and fault.kind == "cut before":
                return
            if fault is not None and fault.kind == "delay":
                await self._hold(fault.seconds)
            elif fault is not None:
                self._marked[HEADER.unpack_from(frame)[1]] = fault.kind
            yield self._server[1], frame

    async def _hold(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closed.wait()

    async def _downwards(self) -> AsyncIterator[tuple[asyncio.StreamWriter, bytes]]:
        while True:
            frame = await read_frame(self._server[0])
            kind = self._marked.pop(HEADER.unpack_from(frame)[2], None)
            if kind == "lose reply":
                return
            yield self._client[1], frame
            if kind == "cut after":
                return


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    header = await reader.readexactly(HEADER.size)
    return header + await reader.readexactly(HEADER.unpack(header)[0] - HEADER.size)


def command_name(frame: bytes) -> str | None:
    """Return the name of the command in a message; None if it is of a kind that holds none."""
    if HEADER.unpack_from(frame)[3] != OP_MSG:
        return None
    at = HEADER.size + INT.size  # behind the flags
    while frame[at] != BODY:
        at += 1 + INT.unpack_from(frame, at + 1)[0]
    begin = at + 1 + INT.size + 1  # behind the kind, the document's length, the element's type
    return frame[begin : frame.index(0, begin)].decode()
