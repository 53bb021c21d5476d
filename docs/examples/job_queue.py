import asyncio

from fairlane import AsyncJobQueue, NewJob

URL = "mongodb://localhost:27017"


async def main() -> None:
    async with AsyncJobQueue.connect(URL, "app", max_attempts=3) as queue:
        # [enqueue]
        await queue.enqueue({"to": "ann"}, "email", priority=5)
        await queue.enqueue({"to": "bob"}, "email", delay=60)
        added = await queue.enqueue_many(
            [{"to": "cid"}, NewJob({"id": 7}, "invoice", unique_key="invoice:7")], "email"
        )
        print("created", added.created)
        again = await queue.enqueue({"id": 7}, "invoice", unique_key="invoice:7")
        print("created again:", again.created)
        # [enqueue-end]

        # [claim]
        job = await queue.claim("email")  # the most urgent one that is due
        if job:
            print("sent to", job.payload["to"])
            await queue.ack(job)
        job = await queue.claim("email")
        if job:
            outcome = await queue.nack(job, delay=10, error="mailbox full")
            print(outcome.name, "of", job.payload["to"])
        # [claim-end]

        stats = await queue.stats()
        print("ready", stats.ready, "delayed", stats.delayed, "done", stats.done)


asyncio.run(main())
