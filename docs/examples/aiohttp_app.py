from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from fairlane import AsyncMongoTransport, Lease, WorkerPool

TRANSPORT: web.AppKey[AsyncMongoTransport[Any]] = web.AppKey("transport", AsyncMongoTransport)


async def handle(lease: Lease[Any]) -> None:
    print("handled", lease.group_id, lease.event, flush=True)


async def fairlane(app: web.Application) -> AsyncIterator[None]:
    async with AsyncMongoTransport.from_url("mongodb://localhost:27017", "app") as transport:
        app[TRANSPORT] = transport
        async with WorkerPool(transport, handle, concurrency=10):
            yield  # leaving the block drains the pool, then closes the client


async def publish(request: web.Request) -> web.Response:
    group = f"order-{request.match_info['order_id']}"
    seq = await request.app[TRANSPORT].publish(group, await request.json())
    return web.json_response({"seq": seq})


def create_app() -> web.Application:
    app = web.Application()
    app.cleanup_ctx.append(fairlane)
    app.router.add_post("/orders/{order_id}/events", publish)
    return app


if __name__ == "__main__":
    web.run_app(create_app(), port=8080)
