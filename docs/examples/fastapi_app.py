from typing import Annotated, Any

import uvicorn
from fastapi import Depends, FastAPI

from fairlane import AsyncMongoTransport, Lease, WorkerPool
from fairlane.integrations.fastapi import Lifespan


async def handle(lease: Lease[Any]) -> None:
    print("handled", lease.group_id, lease.event, flush=True)


messages = Lifespan(
    lambda: AsyncMongoTransport.from_url("mongodb://localhost:27017", "app"),
    pool=lambda transport: WorkerPool(transport, handle, concurrency=10),
)
Transport = Annotated[AsyncMongoTransport[Any], Depends(messages.source)]

app = FastAPI(lifespan=messages)
app.add_api_route("/ready", messages.readiness)


@app.post("/orders/{order_id}/events")
async def publish(order_id: str, event: dict[str, Any], transport: Transport) -> dict[str, int]:
    return {"seq": await transport.publish(f"order-{order_id}", event)}


if __name__ == "__main__":
    uvicorn.run(app, port=8080)
