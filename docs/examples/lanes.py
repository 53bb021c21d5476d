"""A password reset does not wait for the imports that keep all other slots busy."""

import asyncio

from fairlane import AsyncMongoTransport, Lease, WorkerPool

IMPORTS = 6


async def main() -> None:
    begun: list[str] = []
    resets_are_done = asyncio.Event()

    # [handler]
    async def handle(lease: Lease) -> None:
        begun.append(lease.group_id)
        if lease.priority >= 3:
            print(lease.group_id, "starts beside", len(begun) - 1, "imports")
            resets_are_done.set()
        else:
            await resets_are_done.wait()  # an import takes its time

    # [handler-end]

    async with AsyncMongoTransport.from_url("mongodb://localhost:27017", "app") as transport:
        await transport.publish_many([(f"import-{number}", {}) for number in range(IMPORTS)])
        # [pool]
        pool = WorkerPool(transport, handle, lanes={3: 2, 0: 4})
        # [pool-end]
        async with pool:
            while len(begun) < 4:
                await asyncio.sleep(0.01)
            # [publish]
            await transport.publish("reset-ann", {"user": "ann"}, priority=3)
            # [publish-end]
            await resets_are_done.wait()
            while (await transport.stats()).messages:
                await asyncio.sleep(0.1)
        print("handled", len(begun))


asyncio.run(main())
