"""`CleanupContext`: Fairlane in an aiohttp application. Needs the extra `aiohttp`."""

from collections.abc import AsyncIterator

from fairlane.errors import ConfigurationError
from fairlane.integrations._service import MakePool, Open, S, Service, ServiceHealth, Serving

try:
    from aiohttp import web
except ImportError as _missing:
    raise ImportError(
        "fairlane.integrations.aiohttp needs aiohttp: pip install 'fairlane[aiohttp]'"
    ) from _missing

__all__ = ("CleanupContext", "MakePool", "Open", "Service", "ServiceHealth")


class CleanupContext(Serving[S]):
    """A cleanup context of an aiohttp application that publishes, enqueues or works.

    It does in `app.cleanup_ctx` what `fairlane.integrations.fastapi.Lifespan` does as a lifespan;
    arguments, guarantees and errors are the same.

    Example:
        ```python
        messages = CleanupContext(
            lambda: AsyncMongoTransport.from_url("mongodb://localhost:27017", "app"),
            pool=lambda transport: WorkerPool(transport, handle),
        )
        app.cleanup_ctx.append(messages)
        transport = messages.source(request)
        ```
    """

    def __init__(self, open: Open[S], *, pool: MakePool[S] | None = None) -> None:
        super().__init__(open, pool=pool)
        self._key: web.AppKey[Service[S]] = web.AppKey("fairlane", Service)

    async def __call__(self, app: web.Application) -> AsyncIterator[None]:
        """Open at startup, close at cleanup."""
        if self._key in app:
            raise ConfigurationError("this application has this cleanup context already")
        async with self._opened() as service:
            app[self._key] = service
            yield

    def service(self, at: "web.Request | web.Application") -> Service[S]:
        """Return what the application has open: of a request, also in a subapplication, or its own.

        Raises:
            ConfigurationError: this is no cleanup context of that application, or it has not begun.
        """
        known = at.config_dict if isinstance(at, web.Request) else at
        try:
            return known[self._key]
        except KeyError:
            raise ConfigurationError(
                "this application has not been started with this cleanup context: "
                "app.cleanup_ctx.append(...)"
            ) from None

    def source(self, request: web.Request) -> S:
        """Return what has been opened."""
        return self.service(request).source

    async def readiness(self, request: web.Request) -> web.Response:
        """Answer 200 while the service is `ok`, else 503: `app.router.add_get("/ready", ...)`."""
        health = self.service(request).health
        return web.json_response(health.document(), status=health.status)
