"""Health over HTTP: as little of it as a probe needs."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fairlane.cli.worker.health import Ask, is_ready
from fairlane.errors import FairlaneError

__all__ = ("HealthServer", "response")

logger: logging.Logger = logging.getLogger(__name__)

SECONDS = 5.0
MOST_AT_ONCE = 32
LONGEST_HEAD = 8_192
REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}


class HealthServer:
    """Answers `GET /health` and `GET /live`, one request a connection."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._connections = 0

    @asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator[None]:
        """Answer for as long as the block lasts. Raises `FairlaneError` for a taken port."""
        try:
            server = await asyncio.start_server(self._connected, host, port, limit=LONGEST_HEAD)
        except OSError as error:
            raise FairlaneError(f"health cannot be told at {host}:{port}: {error}") from error
        for each in server.sockets:
            name, number = each.getsockname()[:2]
            at = f"[{name}]" if ":" in name else name
            logger.info("health is told at http://%s:%d/health", at, number)
        try:
            yield
        finally:
            server.close()  # not waited for: that may take as long as a client likes

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections <= MOST_AT_ONCE:
                with suppress(TimeoutError, OSError, EOFError, asyncio.LimitOverrunError):
                    async with asyncio.timeout(SECONDS):
                        await self._answer(reader, writer)
        finally:
            self._connections -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(response(head, self._ask))
        await writer.drain()


def response(head: bytes, ask: Ask) -> bytes:
    """Return the whole answer to a request with this head.

    `/health`: 200 in the state `ok`, else 503. `/live`: 200, since the event loop turns.
    """
    method, path = _request(head)
    if method is None:
        return _written(400, {"error": "not HTTP"}, method)
    if method not in ("GET", "HEAD"):
        return _written(405, {"error": "GET or HEAD"}, method)
    if path not in ("/health", "/live"):
        return _written(404, {"error": "/health or /live"}, method)
    document = ask()
    return _written(200 if path == "/live" or is_ready(document) else 503, document, method)


def _request(head: bytes) -> tuple[str | None, str]:
    words = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/"):
        return None, ""
    return words[0], words[1].partition("?")[0]


def _written(status: int, document: dict[str, object], method: str | None) -> bytes:
    body = json.dumps(document).encode() + b"\n"
    fields = [
        f"HTTP/1.1 {status} {REASONS[status]}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "Connection: close",
    ]
    if status == 405:
        fields.append("Allow: GET, HEAD")
    head = "\r\n".join([*fields, "", ""]).encode()
    return head if method == "HEAD" else head + body
