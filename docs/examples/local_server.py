import asyncio

from fairlane import AsyncMongoTransport
from fairlane.testing import local_server


async def main() -> None:
    async with (
        local_server() as server,
        AsyncMongoTransport.from_url(server.url, "app") as transport,
    ):
        seq = await transport.publish("order-42", {"kind": "paid"})
        print("published", seq, "to", server.name)


asyncio.run(main())
