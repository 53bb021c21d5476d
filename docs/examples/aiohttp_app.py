from typing import Any

from aiohttp import web

from fairlane import AsyncMongoTransport, Lease, WorkerPool
from fairlane.integrations.aiohttp import CleanupContext


async def handle(lease: Lease[Any]) -> None:
    print("handled", lease.group_id, lease.event, flush=True)


messages = CleanupContext(
    lambda: AsyncMongoTransport.from_url("mongodb://localhost:27017", "app"),
    pool=lambda transport: WorkerPool(transport, handle, concurrency=10),
)


async def publish(request: web.Request) -> web.Response:
    group = f"order-{request.match_info['order_id']}"
    seq = await messages.source(request).publish(group, await request.json())
    return web.json_response({"seq": seq})


def create_app() -> web.Application:
    app = web.Application()
    app.cleanup_ctx.append(messages)
    app.router.add_post("/orders/{order_id}/events", publish)
    app.router.add_get("/ready", messages.readiness)
    return app


if __name__ == "__main__":
    web.run_app(create_app(), port=8080)
