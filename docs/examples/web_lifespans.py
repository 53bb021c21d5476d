from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI

from fairlane import AsyncJobQueue, AsyncMongoTransport
from fairlane.integrations.fastapi import Lifespan

URL = "mongodb://localhost:27017"
messages = Lifespan(lambda: AsyncMongoTransport.from_url(URL, "app"))
work = Lifespan(lambda: AsyncJobQueue.connect(URL, "app"))


# [lifespan]
@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with messages(app), work(app):
        print("open:", type(work.service(app).source).__name__, flush=True)
        yield


app = FastAPI(lifespan=lifespan)
# [lifespan-end]


@app.post("/orders/{order_id}")
async def place(order_id: str) -> dict[str, int]:
    await work.service(app).source.enqueue({"order": order_id}, "invoice")
    return {"seq": await messages.service(app).source.publish(order_id, {"kind": "placed"})}


if __name__ == "__main__":
    uvicorn.run(app, port=8080)
