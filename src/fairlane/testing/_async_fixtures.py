"""The fixtures that need pytest-asyncio; `pytest_plugin` registers them where it is installed."""

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest_asyncio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fairlane import AsyncJobQueue, AsyncMongoTransport


@pytest_asyncio.fixture
async def fairlane_transport(fairlane_url: str) -> "AsyncIterator[AsyncMongoTransport[Any]]":
    """Give a transport on a fresh database, dropped after the test."""
    from fairlane import AsyncMongoTransport

    async with _fresh(AsyncMongoTransport, fairlane_url) as transport:
        yield transport


@pytest_asyncio.fixture
async def fairlane_queue(fairlane_url: str) -> "AsyncIterator[AsyncJobQueue]":
    """Give a job queue on a fresh database, dropped after the test."""
    from fairlane import AsyncJobQueue

    async with _fresh(AsyncJobQueue, fairlane_url) as queue:
        yield queue


@asynccontextmanager
async def _fresh(kind: type[Any], url: str) -> "AsyncIterator[Any]":
    from motor.motor_asyncio import AsyncIOMotorClient

    client: Any = AsyncIOMotorClient(url)
    db_name = f"fairlane_test_{uuid4().hex[:12]}"
    try:
        async with kind(client, db_name) as product:
            yield product
    finally:
        await client.drop_database(db_name)
        client.close()
