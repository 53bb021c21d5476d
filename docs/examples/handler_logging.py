import asyncio
import logging
import sys

from fairlane import AsyncMongoTransport, Lease, WorkerPool, current_lease

shop = logging.getLogger("shop")


# [filter]
class LeaseFilter(logging.Filter):
    """Put the message at work on every record, under the names that Fairlane's own lines use."""

    def filter(self, record: logging.LogRecord) -> bool:
        lease = current_lease()
        if lease is not None:
            record.group_id, record.seq, record.attempt = lease.group_id, lease.seq, lease.attempt
        return True


def set_up_logging() -> None:
    output = logging.StreamHandler(sys.stdout)
    output.addFilter(LeaseFilter())  # of the output, so that it sees the records of all loggers
    nobody = {"group_id": "-", "seq": "-", "attempt": "-"}
    form = "group=%(group_id)s seq=%(seq)s attempt=%(attempt)s %(message)s"
    output.setFormatter(logging.Formatter(form, defaults=nobody))
    logging.basicConfig(level=logging.INFO, handlers=[output])


# [filter-end]


# [handler]
def charge(cents: int) -> None:
    shop.info("charged %d", cents)  # it knows nothing of leases, and runs in a thread


async def handle(lease: Lease[dict[str, int]]) -> None:
    await asyncio.to_thread(charge, lease.event["cents"])


# [handler-end]


async def main() -> None:
    set_up_logging()
    async with AsyncMongoTransport.from_url("mongodb://localhost:27017", "app") as transport:
        await transport.publish("order-42", {"cents": 995})
        async with WorkerPool(transport, handle):
            while (await transport.stats()).messages:
                await asyncio.sleep(0.05)
        shop.info("closed")


asyncio.run(main())
