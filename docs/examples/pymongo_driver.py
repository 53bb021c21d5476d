import asyncio

from fairlane import AsyncMongoTransport


async def main() -> None:
    async with AsyncMongoTransport.from_url(
        "mongodb://localhost:27017", "app", driver="pymongo"
    ) as transport:
        seq = await transport.publish("order-42", {"kind": "paid"})
        print("published", seq)


asyncio.run(main())
