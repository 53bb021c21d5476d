"""Notice at once that a client will never find a server, instead of when it stops looking."""

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from pymongo.errors import ConfigurationError as DriverConfigurationError

from fairlane.driver._cancelling import end
from fairlane.errors import ConfigurationError

__all__ = ("Hope",)

T = TypeVar("T")

LOOK_EVERY = 0.05
OF_NO_SET = "belongs to a set named 'None'"


class Hope:
    """What a client knows about its servers, before the first of them has answered."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._had_servers = False

    async def answer(self, call: Awaitable[T]) -> T:
        """Wait for a call as long as it may be answered.

        Raises:
            ConfigurationError: no server can be the one that the client was told to look for.
        """
        task = asyncio.ensure_future(call)
        try:
            while not task.done():
                self._look()
                await asyncio.wait((task,), timeout=LOOK_EVERY)
        finally:
            await end(task)
        return task.result()

    def _look(self) -> None:
        description = self._client.topology_description
        servers = description.server_descriptions()
        for server in servers.values():
            error = server.error
            # To a direct connection a server that is away, or in no set yet, is of the set 'None'.
            if isinstance(error, DriverConfigurationError) and OF_NO_SET not in str(error):
                raise ConfigurationError(f"the client cannot use its server: {error}")
        # One by one the driver forgets those of another set. (The names of mongodb+srv:// have to
        # be looked up: until then there are none, either.)
        if self._had_servers and not servers:
            raise ConfigurationError(
                f"none of the servers belongs to a replica set {description.replica_set_name!r}: "
                "correct or leave out replicaSet in the URL"
            )
        self._had_servers = bool(servers) or self._had_servers
