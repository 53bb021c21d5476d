import asyncio

from fairlane import AsyncMongoTransport


# [admin]
async def migrate(admin_url: str) -> None:
    """Run once per deployment, as a user who may create indexes."""
    async with AsyncMongoTransport.from_url(admin_url, "app") as transport:
        await transport.ensure_indexes()


# [admin-end]


# [application]
async def run(url: str) -> None:
    """Run as a user who may only read and write."""
    async with AsyncMongoTransport.from_url(url, "app", ensure_indexes=False) as transport:
        print("published", await transport.publish("order-42", {"kind": "paid"}))


# [application-end]


async def main() -> None:
    await migrate("mongodb://localhost:27017")
    await run("mongodb://localhost:27017")


asyncio.run(main())
