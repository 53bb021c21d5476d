"""The fixtures that need pytest-asyncio; `pytest_plugin` registers them where it is installed."""

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest_asyncio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fairlane import AsyncMongoTransport


@pytest_asyncio.fixture
async def fairlane_transport(fairlane_url: str) -> "AsyncIterator[AsyncMongoTransport[Any]]":
    """Give a transport on a fresh database, dropped after the test."""
    from motor.motor_asyncio import AsyncIOMotorClient

    from fairlane import AsyncMongoTransport

    client: Any = AsyncIOMotorClient(fairlane_url)
    db_name = f"fairlane_test_{uuid4().hex[:12]}"
    try:
        transport: AsyncMongoTransport[Any] = AsyncMongoTransport(client, db_name)
        async with transport:
            yield transport
    finally:
        await client.drop_database(db_name)
        client.close()
