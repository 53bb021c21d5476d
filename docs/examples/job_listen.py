import asyncio
import signal

from fairlane import AsyncJobQueue, Job


async def send(job: Job) -> None:
    print("sent to", job.payload["to"], "attempt", job.attempts)


async def main() -> None:
    async with AsyncJobQueue.connect("mongodb://localhost:27017", "app") as queue:
        await queue.enqueue_many([{"to": "ann"}, {"to": "bob"}], "email")
        listening = asyncio.create_task(queue.listen(send, "email", batch=10))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, listening.cancel)
        await asyncio.wait([listening])  # what has not begun goes back to the queue


asyncio.run(main())
