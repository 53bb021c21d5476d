"""Which driver a client is from."""

from typing import Any, Literal

import pymongo

from fairlane.errors import ConfigurationError

__all__ = ("Kind", "kind_of")

Kind = Literal["motor", "pymongo", "mongomock"]


def kind_of(client: Any) -> Kind:
    kind = type(client)  # not isinstance: the fake claims to be Motor's
    bases = {f"{base.__module__}.{base.__name__}" for base in kind.__mro__}
    if "mongomock_motor.AsyncMongoMockClient" in bases:
        return "mongomock"
    if "motor.core.AgnosticClient" in bases:
        return "motor"
    if issubclass(kind, pymongo.AsyncMongoClient):
        return "pymongo"
    if issubclass(kind, pymongo.MongoClient):
        raise ConfigurationError(
            "client is a blocking MongoClient; AsyncMongoTransport and AsyncJobQueue need an "
            "AsyncIOMotorClient or an AsyncMongoClient (MongoTransport and JobQueue block, and are "
            "built from a URL)"
        )
    given = f"the class {client.__qualname__}" if isinstance(client, type) else kind.__qualname__
    raise ConfigurationError(
        f"client must be an AsyncIOMotorClient or an AsyncMongoClient, not {given}"
    )
