from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI, Request

from fairlane import AsyncMongoTransport, Lease, WorkerPool


async def handle(lease: Lease[Any]) -> None:
    print("handled", lease.group_id, lease.event, flush=True)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncMongoTransport.from_url("mongodb://localhost:27017", "app") as transport:
        app.state.transport = transport
        async with WorkerPool(transport, handle, concurrency=10) as pool:
            app.state.pool = pool
            yield  # leaving the block drains the pool, then closes the client


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{order_id}/events")
async def publish(order_id: str, event: dict[str, Any], request: Request) -> dict[str, int]:
    seq = await request.app.state.transport.publish(f"order-{order_id}", event)
    return {"seq": seq}


@app.get("/health")
async def health(request: Request) -> dict[str, str]:
    return {"pool": str(request.app.state.pool.health.state)}


if __name__ == "__main__":
    uvicorn.run(app, port=8080)
