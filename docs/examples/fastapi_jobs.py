from functools import partial
from typing import Annotated

import uvicorn
from anyio import from_thread
from fastapi import Depends, FastAPI

from fairlane import AsyncJobQueue, JobContext, Jobs, WorkerPool
from fairlane.integrations.fastapi import Lifespan

jobs = Jobs()


@jobs.event("welcome")
async def welcome(ctx: JobContext, params: dict[str, str]) -> None:
    print("welcomed", params["to"], flush=True)


work = Lifespan(
    lambda: AsyncJobQueue.connect("mongodb://localhost:27017", "app"),
    pool=lambda queue: WorkerPool(queue, jobs, concurrency=10),
)
Queue = Annotated[AsyncJobQueue, Depends(work.source)]

app = FastAPI(lifespan=work)


@app.post("/users/{name}", status_code=202)
async def register(name: str, queue: Queue) -> dict[str, bool]:
    added = await welcome.enqueue(queue, {"to": name}, unique_key=name)
    return {"new": added.created}


@app.post("/users/{name}/reminder", status_code=202)
def remind(name: str, queue: Queue) -> dict[str, bool]:
    """A plain `def` runs in a thread, and the queue in the event loop of the application."""
    enqueue = partial(welcome.enqueue, queue, {"to": name}, unique_key=f"{name}:reminder")
    return {"new": from_thread.run(enqueue).created}


if __name__ == "__main__":
    uvicorn.run(app, port=8080)
