import asyncio
from typing import Any

from pymongo import AsyncMongoClient

from fairlane import AsyncMongoTransport


async def main() -> None:
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient("mongodb://localhost:27017")
    try:
        async with AsyncMongoTransport(client, "app") as transport:
            seq = await transport.publish("order-42", {"kind": "paid"})
            print("published", seq)
    finally:
        await client.close()  # the transport closes only a client that it opened itself


asyncio.run(main())
