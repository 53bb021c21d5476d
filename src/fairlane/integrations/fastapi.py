"""`Lifespan`: Fairlane in a FastAPI or Starlette application. Needs the extra `fastapi`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fairlane.errors import ConfigurationError
from fairlane.integrations._service import MakePool, Open, S, Service, ServiceHealth, Serving

try:
    from starlette.applications import Starlette
    from starlette.requests import HTTPConnection, Request
    from starlette.responses import JSONResponse
except ImportError as _missing:
    raise ImportError(
        "fairlane.integrations.fastapi needs FastAPI or Starlette: pip install 'fairlane[fastapi]'"
    ) from _missing

__all__ = ("Lifespan", "MakePool", "Open", "Service", "ServiceHealth")


class Lifespan(Serving[S]):
    """The lifespan of a FastAPI or Starlette application that publishes, enqueues or works.

    At startup it opens what `open` gives and starts the pool, if there is one, in the background;
    at shutdown it drains the pool, which takes up to its `drain_timeout` and six seconds, and
    closes what it has opened. Making one does nothing: it may stand in a module. What is open
    belongs to the application that was started, so several may share one `Lifespan`.

    A pool that fails is logged at once and shows in `readiness`; requests go on being answered,
    and the error ends the application's shutdown. The handlers of signals stay as they are.

    Args:
        open: a function that returns an asynchronous context manager of what is to be opened, as
            `AsyncMongoTransport.from_url` and `AsyncJobQueue.connect` do.
        pool: a function that makes the `WorkerPool` on what was opened; None only to publish.

    Raises:
        ConfigurationError: an argument is no such function. At startup: what a function returned
            is of no use, the pool has `signals=True`, or whatever opening raises.

    Example:
        ```python
        messages = Lifespan(
            lambda: AsyncMongoTransport.from_url("mongodb://localhost:27017", "app"),
            pool=lambda transport: WorkerPool(transport, handle),
        )
        app = FastAPI(lifespan=messages)
        Transport = Annotated[AsyncMongoTransport, Depends(messages.source)]
        ```

    In an application's own lifespan, or beside another one: `async with messages(app): yield`.
    """

    @asynccontextmanager
    async def __call__(self, app: Starlette) -> AsyncIterator[None]:
        """Open at startup, close at shutdown."""
        held: Service[S] | None = getattr(app.state, self._key, None)
        if held is not None and held.is_open:
            raise ConfigurationError("this application has this lifespan open already")
        async with self._opened() as service:
            setattr(app.state, self._key, service)
            yield

    def service(self, at: "HTTPConnection | Starlette") -> Service[S]:
        """Return what the application has open: of a request, a websocket, or the application.

        Raises:
            ConfigurationError: this is not the lifespan of that application, or it has not begun.
        """
        app = at.app if isinstance(at, HTTPConnection) else at
        service: Service[S] | None = getattr(app.state, self._key, None)
        if service is None:
            raise ConfigurationError(
                "this application has not been started with this lifespan: FastAPI(lifespan=...). "
                "A mounted application has none of its own: ask with the one it is mounted in, "
                "lifespan.service(app)"
            )
        return service

    async def source(self, connection: HTTPConnection) -> S:
        """Return what has been opened, as a dependency: `Depends(lifespan.source)`."""
        return self.service(connection).source

    async def readiness(self, request: Request) -> JSONResponse:
        """Answer 200 while the service is `ok`, else 503: `app.add_api_route("/ready", ...)`."""
        health = self.service(request).health
        return JSONResponse(health.document(), health.status)

    @property
    def _key(self) -> str:
        return f"fairlane_{id(self):x}"
